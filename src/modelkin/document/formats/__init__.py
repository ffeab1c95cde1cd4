"""Results in the formats of other programs: code scanning, bills of materials, model cards, badges."""

from .badge import badge_svg
from .card import model_card
from .claims import sarif_json
from .comparison import FORMATS, comparison_as, comparison_sarif
from .cyclonedx import ml_bom
from .home import HOME
from .sarif import SarifFinding, SarifRule, sarif_log
