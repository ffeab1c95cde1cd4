"""The dispute about Solar and GLM, told from published measurements alone: nothing is downloaded."""

from ._tell import replay_solar_glm
from .view import replay_view, write_replay
