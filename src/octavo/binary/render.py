"""Programs in the terminal: the verdict first, then the evidence."""

from rich.console import Console
from rich.table import Table

from octavo.binary.core_types import ElfReport
from octavo.binary.machines import AARCH64, name_of
from octavo.binary.read import Program
from octavo.binary.verdict import tally, verdict
from octavo.text import one_line
from octavo.units import human_count, human_size

_MOST_FLAGS = 5


def show(programs: list[Program], screen: Console, *, verbose: bool) -> None:
    """One program in full; of several those with atomic instructions in a line each, and all in full with `verbose`."""
    if len(programs) == 1 or verbose:
        for place, program in enumerate(programs):
            if place:
                screen.print()
            _show(program, screen)
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("file", "architecture", "verdict"):
        table.add_column(title, overflow="fold")
    words: dict[str, int] = {}
    for program in programs:
        if program.report is None:
            words["not read"] = words.get("not read", 0) + 1
            table.add_row(one_line(program.name), "", program.problem)
            continue
        message = verdict(program.report)
        line = message.line.partition(":")[0]
        words[line] = words.get(line, 0) + 1
        if message.word != "none":
            table.add_row(one_line(program.name), name_of(program.report["machine"]), message.line)
    most = sorted(words.items(), key=lambda one: (-one[1], one[0]))[:6]
    screen.print(f"{human_count(len(programs), 'program')}: " + "; ".join(f"{count} {line}" for line, count in most))
    if table.row_count:
        screen.print(table)


def _show(program: Program, screen: Console) -> None:
    name, report = one_line(program.name), program.report
    if report is None:
        screen.print(f"{name} {program.problem}")
        return
    message = verdict(report)
    screen.print(f"{name}: {message.line}")
    if message.advice:
        screen.print(f"  {message.advice}")
    stripped = ", stripped" if report["is_stripped"] else ""
    code = f"; {human_size(report['code_bytes'])} of instructions" if report["code_bytes"] else ""
    screen.print(f"  {name_of(report['machine'])}, {report['kind']}{stripped}{code}")
    if report["helpers"]:
        calls = tally(report).calls
        helpers = ", ".join(f"{one} {count}" for one, count in sorted(report["helpers"], key=lambda one: -one[1]))
        screen.print(f"  {calls} calls of helpers of outlined atomics: {helpers}")
    _show_levels(report, screen)
    for compiler in report["compilers"]:
        screen.print(f"  compiler: {one_line(compiler)}")
    for producer, units in report["producers"][:_MOST_FLAGS]:
        screen.print(f"  {human_count(units, 'unit')} compiled with: {one_line(producer)}")
    more = len(report["producers"]) - _MOST_FLAGS
    if more > 0:
        screen.print(f"  and {more} other combinations of compiler and flags")
    if not report["compilers"] and not report["producers"]:
        screen.print("  compiler and flags: not recorded in the file")
    for note in report["notes"]:
        screen.print(f"  note: {note}")
    if report["counts"]:
        screen.print(_counts(report))


def _show_levels(report: ElfReport, screen: Console) -> None:
    for name, count, stretches, functions in report["levels"]:
        where = f" in {stretches} of {report['stretches']} stretches of 4 kB" if stretches else ""
        named = f": {', '.join(map(one_line, functions))}" if functions else ""
        screen.print(f"  {count} instructions of {name}{where}{named}")


def _counts(report: ElfReport) -> Table:
    table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    table.add_column("count", justify="right")
    table.add_column("instruction")
    table.add_column("group")
    is_arm = report["machine"] == AARCH64
    if is_arm:
        table.add_column("in helpers", justify="right")
    for name, group, count, helped in sorted(report["counts"], key=lambda one: (one[1], -one[2], one[0])):
        table.add_row(str(count), name, group, *([str(helped)] if is_arm else []))
    return table
