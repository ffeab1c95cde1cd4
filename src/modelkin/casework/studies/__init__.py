"""Studies: a whole investigation from one YAML file, with data first, figures from the data, and reports."""

from ._run import run_study
from .files import load_study, parse_study, shipped_studies
from .result import StudyResult
from .spec import Study

__all__ = [
    "Study",
    "StudyResult",
    "load_study",
    "parse_study",
    "run_study",
    "shipped_studies",
]
