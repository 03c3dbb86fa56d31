"""`octavo doctor`: what page sizes cost a server and its host, and what to change."""

import time
from contextlib import ExitStack, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octavo.cli.given import given, refuse_alone

if TYPE_CHECKING:
    from octavo.doctor.examine import ExaminedServer
    from octavo.doctor.facts import Fact


_MOST_OF_A_CORE = 0.01
# Options that have an effect together with these.
_SHOWN = {"fail_on", "format", "verbose"}
_USED_WITH = {
    "explain": {"format"}, "compare": {"format"}, "watch": {"dsn", "hosts", "format"}, "facts": _SHOWN,
    "binary": _SHOWN, "before_start": {"shared_buffers", *_SHOWN},
}  # fmt: skip


class DoctorFormat(StrEnum):
    """How a report is printed."""

    text = "text"
    json = "json"
    md = "md"
    html = "html"


class FailOn(StrEnum):
    """From which severity on findings are a failure."""

    error = "error"
    warning = "warning"
    note = "note"
    never = "never"


def doctor(
    context: typer.Context,
    dsn: Annotated[
        str | None, typer.Option(help="Connection string of a server; default: every server on this host.")
    ] = None,
    pgdata: Annotated[Path | None, typer.Option(help="Data directory of a running or stopped server.")] = None,
    bindir: Annotated[Path | None, typer.Option(help="With --pgdata: directory of the server's programs.")] = None,
    before_start: Annotated[
        bool, typer.Option("--before-start", help="Check whether initdb, or the start of a server, would fail here.")
    ] = False,
    shared_buffers: Annotated[str, typer.Option(help="With --before-start: shared_buffers of the server.")] = "128MB",
    binary: Annotated[
        Path | None, typer.Option(help="A postgres for 64-bit Arm, on any host: check its atomic instructions.")
    ] = None,
    facts: Annotated[Path | None, typer.Option(help="Facts of another host, as JSON, instead of this host's.")] = None,
    hosts: Annotated[
        Path | None, typer.Option(help="Examine all servers on the hosts of this TOML file over SSH (docs/doctor.md).")
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Two reports of --format json: print what changed.")
    ] = None,
    predict: Annotated[
        Path | None, typer.Option(help="A trace of this server (octavo trace): predict other data blocks.")
    ] = None,
    explain: Annotated[str | None, typer.Option(help="Print what this rule (or all) checks, and its source.")] = None,
    watch: Annotated[
        str | None,
        typer.Option(
            help="Repeat at this interval (10, 1min), less often if that takes over 1 % of a core; print what changed."
        ),
    ] = None,
    interval: Annotated[str, typer.Option(help="How long disk and server are observed; 0s: not at all.")] = "2s",
    fail_on: Annotated[FailOn, typer.Option(help="Exit with 1 if a finding is at least this severe.")] = FailOn.error,
    format: Annotated[DoctorFormat, typer.Option(help="Output format.")] = DoctorFormat.text,
    verbose: Annotated[bool, typer.Option("--verbose", help="List all rules, with their evidence.")] = False,
) -> None:
    """Find what page sizes cost a live server, and how to fix it.

    It changes nothing. Queries run read-only with short timeouts; pg_monitor is enough, root is not needed. What cannot
    be examined is reported.

    \b
    Examples:
    octavo doctor
    octavo doctor --dsn 'host=/run/postgresql dbname=shop' --fail-on warning
    octavo doctor --before-start --shared-buffers 1GB
    octavo doctor --predict shop.octrace
    octavo doctor --hosts hosts.toml
    octavo doctor --compare before.json after.json
    """
    from octavo.errors import UsageError

    if before_start + sum(one is not None for one in (dsn, pgdata, binary, facts, hosts, compare)) > 1:
        raise UsageError("give one of --dsn, --pgdata, --before-start, --binary, --facts, --hosts and --compare")
    if predict is not None and (
        before_start or any(one is not None for one in (pgdata, binary, facts, hosts, compare, watch))
    ):
        raise UsageError("--predict needs a running server; give it alone or with --dsn")
    if bindir is not None and pgdata is None:
        raise UsageError("--bindir has no effect without --pgdata; add --pgdata, or leave --bindir out")
    if not before_start:
        refuse_alone(context, {"shared_buffers": "--before-start"})
    if watch is not None and (before_start or any(one is not None for one in (pgdata, binary, facts, compare))):
        raise UsageError("--watch needs running servers; give it alone or with --dsn")
    _refuse_ignored(context)
    _check_format(format, explain=explain is not None, compare=compare is not None, watch=watch is not None)
    if explain is not None:
        _explain(explain, format)
    elif compare is not None:
        _compare(*compare, format)
    elif hosts is not None:
        if watch is not None:
            raise UsageError("--watch examines one host; run octavo doctor --watch there")
        _hosts(hosts, interval, fail_on, format, verbose=verbose)
    elif watch is not None:
        _watch(dsn, watch, format)
    else:
        before = shared_buffers if before_start else None
        found = _found(dsn, pgdata, bindir, before, binary, facts, interval, predict)
        _print(found, format, verbose=verbose)
        _end(found, fail_on)


def _refuse_ignored(context: typer.Context) -> None:
    """Raises UsageError for an option that another one leaves without effect."""
    from octavo.errors import UsageError

    options = given(context)
    for name, used in _USED_WITH.items():
        if name in options and (ignored := options.keys() - used - {name}):
            option = next(option for other, option in options.items() if other in ignored)
            raise UsageError(f"{option} has no effect with {options[name]}; leave it out")


def _check_format(format: DoctorFormat, *, explain: bool, compare: bool, watch: bool) -> None:
    """Raises UsageError for a format in which what was asked for is not printed."""
    from octavo.errors import UsageError

    both = (DoctorFormat.text, DoctorFormat.json)
    allowed = {"--explain": (explain, (DoctorFormat.text, DoctorFormat.md)), "--compare": (compare, both),
               "--watch": (watch, both)}  # fmt: skip
    for option, (is_given, formats) in allowed.items():
        if is_given and format not in formats:
            raise UsageError(f"{option} has no --format {format.value}; use --format {' or '.join(formats)}")


def _explain(name: str, format: DoctorFormat) -> None:
    from octavo.doctor.explain import explain, table
    from octavo.doctor.rules import RULES
    from octavo.errors import UsageError, choices

    chosen = list(RULES.values()) if name == "all" else [RULES[name]] if name in RULES else []
    if not chosen:
        raise UsageError(f"--explain {name}: unknown rule; {choices(name, ['all', *RULES])}")
    print(table(chosen) if format is DoctorFormat.md else "\n\n".join(map(explain, chosen)))


def _compare(before: Path, after: Path, format: DoctorFormat) -> None:
    from octavo.cli.output import print_json
    from octavo.doctor.compare import changes, lines, read_report

    changed = changes(read_report(before), read_report(after))
    if format is DoctorFormat.json:
        print_json(changed)
    else:
        print("\n".join(lines(changed)))


def _hosts(file: Path, interval: str, fail_on: FailOn, format: DoctorFormat, *, verbose: bool) -> None:
    import sys

    from octavo.cli.output import console, print_json
    from octavo.doctor import hosts
    from octavo.doctor.report import is_as_bad
    from octavo.errors import HostError
    from octavo.host.journal import Journal
    from octavo.remote.hosts_file import read_hosts
    from octavo.remote.ssh import on_each
    from octavo.units import duration_option

    seconds = hosts.seconds_for(duration_option("--interval", interval))
    chosen = read_hosts(file)
    rows: list[dict[str, Any]] = []
    with Journal() as journal:
        asked = on_each(
            chosen, lambda host: hosts.words_for(host, interval), journal, seconds=seconds,
            most_bytes=hosts.MOST_BYTES,
        )  # fmt: skip
        for number, answer in enumerate(asked, 1):
            rows += hosts.rows_of(answer)
            if sys.stderr.isatty():
                end = "" if number < len(chosen) else "\n"
                print(f"\r{number} of {len(chosen)} hosts", end=end, file=sys.stderr, flush=True)
    found = hosts.document(rows)
    if format is DoctorFormat.json:
        print_json(found)
    elif format is DoctorFormat.md:
        from octavo.doctor.hosts_text import markdown

        print(markdown(found))
    elif format is DoctorFormat.html:
        from octavo.doctor.html import render_hosts

        print(render_hosts(found))
    else:
        from octavo.doctor.hosts_text import show

        show(found, console(), verbose=verbose)
    if found["unanswered"] == len(found["rows"]):
        raise HostError(f"could not connect to any server on any host; the first error: {found['rows'][0]['problem']}")
    if fail_on is not FailOn.never and is_as_bad(found, fail_on.value):
        raise typer.Exit(1)


def _found(
    dsn: str | None, pgdata: Path | None, bindir: Path | None, shared_buffers: str | None, binary: Path | None,
    facts: Path | None, interval: str, predict: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    from octavo.doctor import examine, report
    from octavo.errors import UsageError
    from octavo.units import duration_option, size_option

    seconds = duration_option("--interval", interval)
    more: list[Fact] = []
    if predict is not None:
        from octavo.predict.doctor_facts import facts_of

        more = facts_of(predict)
    if facts is not None:
        return report.document([_from_file(facts)])
    if binary is not None:
        return report.document([examine.of_program(binary)])
    if shared_buffers is not None:
        return report.document([examine.before_start(size_option("--shared-buffers", shared_buffers, "128kB"), "try")])
    with ExitStack() as stack:
        if pgdata is not None:
            running = examine.on(pgdata)
            if running is None:
                return report.document([examine.of_stopped(pgdata, bindir)])
            patients, refused = [running], []
        else:
            patients, refused = examine.patients(dsn)
        for patient in patients:
            stack.callback(patient.close)
        if more and len(patients) != 1:
            raise UsageError("--predict needs exactly one server; name it with --dsn")
        return report.document([*examine.look_at(patients, seconds, more), *refused])


def _from_file(path: Path) -> dict[str, Any]:
    from octavo.doctor import report
    from octavo.doctor.facts import read_facts
    from octavo.doctor.json_file import read_json

    return report.part(path.name, read_facts(read_json(path)))


def _watch(dsn: str | None, every: str, format: DoctorFormat) -> None:
    import json

    from octavo.doctor import examine
    from octavo.doctor.compare import changed_lines, changes
    from octavo.errors import HostError
    from octavo.units import duration_option

    seconds = duration_option("--watch", f"{every}s" if every.strip().isdecimal() else every, "1s")
    with ExitStack() as stack:
        patients, refused = examine.patients(dsn)
        if not patients:
            raise HostError("could not connect to any server on this host; give --dsn")
        for patient in patients:
            stack.callback(patient.close)
        before = _look(patients, refused, 0)
        if format is DoctorFormat.json:
            print(json.dumps(before, allow_nan=False), flush=True)
        else:
            _print(before, format, verbose=False)
        with suppress(KeyboardInterrupt):
            while True:
                spent = time.process_time()
                after = _look(patients, refused, seconds)
                # The more processes the server has, the more it costs to look at them.
                rest = (time.process_time() - spent) / _MOST_OF_A_CORE - seconds
                changed = changes(before, after)
                if format is DoctorFormat.json:
                    print(json.dumps(after, allow_nan=False), flush=True)
                elif message := changed_lines(changed):
                    print("\n".join(f"{after['time']} {line}" for line in message), flush=True)
                before = after
                if rest > 0:
                    time.sleep(rest)


def _look(patients: "list[ExaminedServer]", refused: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """The report of all servers, whose observation shares the seconds, and of those that cannot be examined."""
    from octavo.doctor import examine, report

    return report.document([*examine.look_at(patients, seconds / len(patients)), *refused])


def _print(found: dict[str, Any], format: DoctorFormat, *, verbose: bool) -> None:
    from octavo.cli.output import console, print_json

    if format is DoctorFormat.json:
        print_json(found)
    elif format is DoctorFormat.md:
        from octavo.doctor.markdown import render

        print(render(found, verbose=verbose))
    elif format is DoctorFormat.html:
        from octavo.doctor.html import render as page

        print(page(found))
    else:
        from octavo.doctor.text import show

        show(found, console(), verbose=verbose)


def _end(found: dict[str, Any], fail_on: FailOn) -> None:
    from octavo.doctor.report import is_as_bad
    from octavo.errors import HostError

    problems = [one["problem"] for one in found["servers"] if one["problem"]]
    if problems and len(problems) == len(found["servers"]):
        raise HostError(f"could not connect to any server on this host ({problems[0]}); give --dsn")
    if fail_on is not FailOn.never and is_as_bad(found, fail_on.value):
        raise typer.Exit(1)
