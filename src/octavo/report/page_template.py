"""Templates of HTML pages, and the style sheet that all pages have."""

from collections.abc import Callable
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from octavo.report.chart_colours import DARK, LIGHT, PLAIN, coloured
from octavo.report.chart_style import Chart


def environment(package: str, **filters: Callable[..., Any]) -> Environment:
    """The templates of a package, with these filters: every text is escaped, and a name that is not known an error."""
    found = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(filters)
    return found


def style(*more: str) -> Markup:
    """The style sheet of all pages, and more of our own after it."""
    return own(resources.files("octavo.report").joinpath("page.css").read_text(encoding="utf-8") + "".join(more))


def figure(chart: Chart, caption: str) -> dict[str, Any]:
    """A chart in both themes, drawn once, with its caption."""
    plain = chart.svg(PLAIN)
    return {"light": own(coloured(plain, LIGHT)), "dark": own(coloured(plain, DARK)), "caption": caption}


def own(text: str) -> Markup:
    """Our own style sheets and charts, whose texts are escaped by what draws."""
    return Markup(text)  # noqa: S704
