"""A report as one self-contained page in the style of Octavo's reports; all text is escaped."""

from collections.abc import Mapping
from typing import Any

from octavo.doctor.engine import SEVERITIES
from octavo.doctor.hosts import headline
from octavo.doctor.sentences import evidence, layers, others, tally, unknowns, verdict
from octavo.report.page_template import environment, style
from octavo.text import printable

# Layer and rule names do not wrap within a word, sizes are aligned, and lines to copy are shown in full.
_STYLE = """
.named tbody th { overflow-wrap: normal; }
.stack th:nth-child(2), .stack td:nth-child(2) { text-align: right; white-space: nowrap; }
dd pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""


def render(report: Mapping[str, Any]) -> str:
    """The page of one host's servers."""
    return _page(
        "doctor.html.j2", report=report, verdict=verdict, tally=tally, evidence=evidence, layers=layers, others=others,
        unknowns=unknowns,
    )  # fmt: skip


def render_hosts(report: Mapping[str, Any]) -> str:
    """The page of many hosts."""
    return _page("hosts.html.j2", report=report, headline=headline, severities=SEVERITIES)


def _page(template: str, **values: Any) -> str:
    templates = environment("octavo.doctor", clean=_clean)
    page = templates.get_template(template).render(style=style(_STYLE), **values)
    return page.encode("utf-8", "replace").decode("utf-8")


def _clean(text: object) -> str:
    return printable(str(text))
