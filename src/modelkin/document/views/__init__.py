"""Results as blocks: one view for each kind of result, the same for terminal, Markdown and page."""
