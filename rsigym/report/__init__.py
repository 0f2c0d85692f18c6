"""The report of a run: one HTML file that needs nothing else, made from the run folder alone."""

from pathlib import Path

from rsigym.report.page import page
from rsigym.report.run_folder import read_run

__all__ = ["write_report"]


def write_report(run_folder: Path) -> Path:
    """Write `report.html` into a run folder, and answer its path.

    Raises:
        OperatorError: It is no run folder.
    """
    report = run_folder / "report.html"
    report.write_text(page(read_run(run_folder)), encoding="utf-8")
    return report
