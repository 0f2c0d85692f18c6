"""The page: its head, its style, and the sections that have something to show."""

from importlib import resources

from rsigym.report.curves import development_curves, loss_curves
from rsigym.report.evaluations import evaluations
from rsigym.report.markup import Html, element, join
from rsigym.report.run_folder import RunFolder
from rsigym.report.sections import (
    calls,
    headline,
    settings,
    spending,
    warnings,
)

__all__ = ["page"]

# No script, no style but ours and no request can come out of the page, whatever is in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(run: RunFolder) -> Html:
    """The report of a run as one HTML document."""
    title = f"{run.result.get('experiment', 'rsigym')} · {run.name}"
    style = resources.files("rsigym.report").joinpath("style.css").read_text(encoding="utf-8")
    sections = (
        headline(run),
        warnings(run),
        development_curves(run),
        loss_curves(run),
        spending(run),
        evaluations(run),
        calls(run),
        settings(run),
    )
    return join(
        [
            Html("<!doctype html>\n"),
            element(
                "html",
                element(
                    "head",
                    element("meta", charset="utf-8"),
                    element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
                    element("meta", name="viewport", content="width=device-width, initial-scale=1"),
                    element("title", title),
                    element("style", Html(style)),
                ),
                element("body", element("main", sections)),
                lang="en",
            ),
        ]
    )
