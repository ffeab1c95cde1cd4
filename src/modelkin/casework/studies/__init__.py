"""Studies: a whole investigation from one YAML file, with data first, figures from the data, and reports."""

from ._redraw import redraw_study
from ._rehearse import StudyPlan, plan_study
from ._run import run_study
from .files import load_study, shipped_studies
from .result import Step, StudyResult
from .spec import Study
