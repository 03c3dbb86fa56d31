"""`octavo report`: shows a run, finished or not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from octavo.cli.choices import ReportFormat

if TYPE_CHECKING:
    from octavo.report.document import Document


def report(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Run id or unique prefix; last is the newest run.")
    ] = "last",
    html: Annotated[Path | None, typer.Option(help="Write the report as a self-contained page to this file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write every chart of the page into this directory, as PNG.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write every chart of the page into this directory, as SVG.")] = None,
    site: Annotated[
        Path | None,
        typer.Option(help="Write a static site of all runs into this directory, replacing an earlier one."),
    ] = None,
    format: Annotated[ReportFormat, typer.Option(help="Output format.")] = ReportFormat.text,
    watch: Annotated[
        bool, typer.Option("--watch", help="Follow a run in progress until it ends; Ctrl-C quits.")
    ] = False,
    series: Annotated[
        bool, typer.Option("--series", help="With --format json: include every sample of the instruments.")
    ] = False,
) -> None:
    """Show a run: answer, verdicts, metrics, model, limitations.

    Example: octavo report last --html report.html
    """
    import gc
    import os
    import sys
    from contextlib import closing

    # The matrices of a report are small: several threads at one only wait for each other. Before numpy is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from octavo.analysis.document import make_document
    from octavo.analysis.shown_metrics import MOST_NUMBERS
    from octavo.errors import UsageError
    from octavo.store.address import store_address
    from octavo.store.failures import content_of
    from octavo.store.listing import find_run
    from octavo.store.store import Store

    if series and format is not ReportFormat.json:
        raise UsageError("--series has no effect without --format json; add --format json, or leave --series out")
    if site is not None:
        if (
            run != "last"
            or series
            or watch
            or format is not ReportFormat.text
            or (html, png, svg) != (None, None, None)
        ):
            raise UsageError("--site writes all runs; do not combine it with a run or other output options")
        _site(site)
        return
    if watch and (format is not ReportFormat.text or png is not None or svg is not None):
        raise UsageError("--watch draws on the terminal or writes --html; do not combine it with other output options")
    pictures = html is not None or png is not None or svg is not None
    if pictures and format is not ReportFormat.text:
        raise UsageError("--html, --png and --svg write files, and --format prints; give one of them")
    identifier = find_run(store_address(), run)
    with content_of(identifier, store_address()):
        if watch:
            from octavo.cli.output import console
            from octavo.report.follow import follow

            with closing(Store.open_to_read(store_address())) as store:
                follow(store, identifier, console(), html)
            return
        if pictures:
            from octavo.report.chart_style import load_vega

            load_vega()
        most = MOST_NUMBERS if pictures else 0 if format in (ReportFormat.text, ReportFormat.md) else None
        gc.disable()  # the document of a long run has millions of objects that all live to the end
        with closing(Store.open_to_read(store_address())) as store:
            document = make_document(store, identifier, most_numbers=most)
        if pictures:
            if html is not None:
                from octavo.report.files import write_html

                print(write_html(document, html))
            if png is not None:
                _charts(document, png, "png")
            if svg is not None:
                _charts(document, svg, "svg")
        elif format is ReportFormat.text:
            from octavo.cli.output import console
            from octavo.report.terminal import print_report

            print_report(document, console())
        elif format is ReportFormat.json:
            from octavo.analysis.charted_series import all_series
            from octavo.report.as_json import pieces

            del document["series"]  # what a page draws of it
            with closing(Store.open_to_read(store_address())) as store:
                if series:
                    document["series"] = all_series(store, [trial["id"] for trial in document["trials"]])
                sys.stdout.writelines(pieces(document))
        elif format is ReportFormat.csv:
            from octavo.report.csv_rows import write

            write(document, sys.stdout)
        else:
            from octavo.report.markdown import render

            print(render(document), end="")


def _site(directory: Path) -> None:
    import sys
    from contextlib import closing

    from octavo.errors import UsageError
    from octavo.report.site import write_site
    from octavo.store.address import store_address
    from octavo.store.listing import list_runs
    from octavo.store.store import Store

    runs = [row["id"] for row in list_runs(store_address())]

    def print_progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    if not runs:
        raise UsageError("no runs yet; start one with: octavo run oltp-blocks-demo")
    with closing(Store.open_to_read(store_address())) as store:
        print(write_site(store, runs, directory, print_progress))


def _charts(document: "Document", directory: Path, kind: Literal["png", "svg"]) -> None:
    from octavo.report.chart_files import write_charts

    written = write_charts(document, directory, kind)
    print(f"{len(written)} charts as {kind.upper()} in {directory.absolute()}")
