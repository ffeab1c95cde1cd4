"""The dispute and its experiments: studies, the replay, the lab, and the figures they draw."""
