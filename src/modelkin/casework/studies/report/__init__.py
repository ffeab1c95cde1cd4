"""Reports of a study, from saved data: ``REPORT.md``, the results alone, and one page."""

from ._write import report_page, report_text, results_text

__all__ = ["report_page", "report_text", "results_text"]
