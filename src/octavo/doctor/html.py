"""A report as one self-contained page in the look of Octavo's reports; every text is escaped."""

from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from octavo.doctor.engine import SEVERITIES
from octavo.doctor.hosts import headline
from octavo.doctor.sentences import evidence, tally, verdict
from octavo.text import printable


def render(report: Mapping[str, Any]) -> str:
    """The page of one host's servers."""
    return _page("doctor.html.j2", report=report, verdict=verdict, tally=tally, evidence=evidence)


def render_hosts(report: Mapping[str, Any]) -> str:
    """The page of many hosts."""
    return _page("hosts.html.j2", report=report, headline=headline, severities=SEVERITIES)


def _page(template: str, **values: Any) -> str:
    environment = Environment(
        loader=PackageLoader("octavo.doctor", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["clean"] = lambda text: printable(str(text))
    style = resources.files("octavo.report").joinpath("page.css").read_text(encoding="utf-8")
    page = environment.get_template(template).render(
        style=Markup(style),  # noqa: S704 – our own style sheet
        **values,
    )
    return page.encode("utf-8", "replace").decode("utf-8")
