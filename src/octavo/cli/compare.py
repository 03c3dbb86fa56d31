"""`octavo compare`: compares runs, with an exit code for a regression."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ComparisonFormat(StrEnum):
    """How a comparison is printed."""

    text = "text"
    json = "json"
    md = "md"


def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN RUN...", help="Two or more, by id or unique prefix; the first is the reference."),
    ] = None,
    fail_on: Annotated[
        str | None, typer.Option(help="Exit with 1 if a regression of more than this is decided: regression=3%.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the comparison as a self-contained page to this file.")
    ] = None,
    format: Annotated[ComparisonFormat, typer.Option(help="Output format.")] = ComparisonFormat.text,
) -> None:
    """Compare runs of different machines, versions or settings.

    Exit code 1: a decided regression, or a query that newly reaches its time limit (--fail-on); 4: nothing could be
    decided (also without --fail-on), or a cell has no valid trial (--fail-on).

    Example: octavo compare RUN RUN --fail-on regression=3%
    """
    import os
    from contextlib import closing

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded: the matrices are small

    from octavo.analysis.compare_document import exit_code, make_comparison
    from octavo.errors import UsageError
    from octavo.report.compare_sentences import conclusion
    from octavo.store.address import store_address
    from octavo.store.failures import content_of
    from octavo.store.listing import find_run
    from octavo.store.store import Store

    if runs is None or len(runs) < 2:
        raise UsageError("compare needs two or more runs: octavo compare RUN1 RUN2 (octavo runs lists them)")
    if html is not None and format is not ComparisonFormat.text:
        raise UsageError("--html writes a page, and --format prints; give one of them")
    margin = None if fail_on is None else _margin(fail_on)
    ids = [find_run(store_address(), run) for run in runs]
    with content_of(" and ".join(ids), store_address()):
        with closing(Store.open_to_read(store_address())) as store:
            document = make_comparison(store, ids, margin)
        if html is not None:
            from octavo.report.compare_html import render as page
            from octavo.report.text_file import write_text

            print(write_text(page(document), html))
            print(conclusion(document))
        elif format is ComparisonFormat.text:
            from octavo.cli.output import console
            from octavo.report.compare_terminal import print_comparison

            print_comparison(document, console())
        elif format is ComparisonFormat.json:
            from octavo.report.as_json import render as as_json

            print(as_json(document), end="")
        else:
            from octavo.report.compare_markdown import render

            print(render(document), end="")
    if code := exit_code(document):
        raise typer.Exit(code)


def _margin(text: str) -> float:
    """The fraction of `regression=3%`. Raises UsageError."""
    from octavo.errors import UsageError
    from octavo.units import percentage_option

    what, sign, percentage = text.partition("=")
    if what.strip() != "regression" or not sign:
        raise UsageError(f"--fail-on: invalid condition {text!r}; write regression=3%, with the margin that you accept")
    return percentage_option("--fail-on", percentage)
