"""`script/fuzz-python MINUTES [NAME…]`: texts guided by a parser's coverage (Atheris, libFuzzer).

As many parsers at once as there are CPUs, each in a separate process. In the directory of OCTAVO_FUZZ a parser has
its corpus, with which the next run starts, a log, and its findings: the text and the traceback.
"""

import contextlib
import importlib
import io
import multiprocessing
import multiprocessing.connection
import os
import re
import shutil
import sys
import traceback
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.fuzz.fuzzing import Parser, TookTooLong, attempt, where
from tests.fuzz.mutations import TOKENS

# The limit for one parser. A defect that occurs in twenty places is one.
_MOST_FOUND = 20
_SCRATCH = "scratch"
_LONGEST_TEXT = 4096
_EXECUTED = re.compile(r"^stat::number_of_executed_units: (\d+)$", re.MULTILINE)
_COVERED = re.compile(r"\bcov: (\d+)")


def main() -> int:
    """Returns the exit code: 1 if something was found or a parser could not be run, 2 for wrong arguments."""
    try:
        seconds = round(float(sys.argv[1]) * 60)
        place = Path(os.environ["OCTAVO_FUZZ"])
    except (IndexError, KeyError, OverflowError, ValueError):
        seconds, place = 0, Path()
    if seconds < 1:  # for libFuzzer this means "without end"
        print("usage: script/fuzz-python MINUTES [NAME…]    a second or more", file=sys.stderr)
        return 2
    atheris: Any = importlib.import_module("atheris")
    # Atheris prints the name of each module that it instruments.
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["octavo"]):
        entry = importlib.import_module("tests.fuzz.__main__")
        wanted: list[Parser] = [one for one in entry.parsers() if entry.is_wanted(str(one), sys.argv[2:])]
    if not wanted:
        print(f"no parser's name has any of: {', '.join(sys.argv[2:])}", file=sys.stderr)
        return 2
    print(f"{'parser':<56} {'inputs':>12} {'reached':>8}  failures", flush=True)
    failures = 0
    for parser, directory in _each(atheris, wanted, seconds, place):
        log = (directory / "log").read_text(errors="replace")
        executed, covered = _EXECUTED.search(log), _COVERED.findall(log)
        found = sorted(directory.glob("found-*"))
        if executed is None:
            print(f"{parser.name:<56} did not end: {directory / 'log'}", flush=True)
        else:
            reached = int(covered[-1]) if covered else 0
            print(f"{parser.name:<56} {int(executed[1]):>12,} {reached:>8,}  {len(found)}", flush=True)
        for one in found:
            print(one.read_text(), file=sys.stderr, flush=True)
        failures += len(found) + (executed is None)
    return int(failures > 0)


def _each(atheris: Any, wanted: list[Parser], seconds: int, place: Path) -> Iterator[tuple[Parser, Path]]:
    """Runs them, and yields each one that has ended with its directory."""
    context = multiprocessing.get_context("fork")  # instrumenting takes seconds, and is done only once
    running: dict[BaseProcess, tuple[Parser, Path]] = {}
    try:
        for parser in [*wanted, None]:
            while running and (parser is None or len(running) >= len(os.sched_getaffinity(0))):
                multiprocessing.connection.wait([one.sentinel for one in running])
                for ended in [one for one in running if one.exitcode is not None]:
                    shutil.rmtree(running[ended][1] / _SCRATCH, ignore_errors=True)
                    yield running.pop(ended)
            if parser is not None:
                directory = place / re.sub(r"\W+", "-", parser.name).strip("-")
                directory.mkdir(parents=True, exist_ok=True)
                process = context.Process(target=_one, args=(atheris, parser, seconds, directory))
                process.start()
                running[process] = parser, directory
    finally:
        for process, (_, directory) in running.items():
            process.kill()
            process.join()
            shutil.rmtree(directory / _SCRATCH, ignore_errors=True)


def _one(atheris: Any, parser: Parser, seconds: int, directory: Path) -> None:
    """Fuzzes one parser until libFuzzer ends this process."""
    for old in directory.glob("found-*"):
        old.unlink()
    with (directory / "log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    corpus = directory / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, sample in enumerate(parser.samples):
        (corpus / f"sample-{number}").write_bytes(sample)
    (directory / "tokens").write_text("".join(f'"{_escaped(token)}"\n' for token in TOKENS if 0 < len(token) < 64))
    scratch = directory / _SCRATCH
    scratch.mkdir(exist_ok=True)
    seen = set[tuple[str, str]]()

    def read(text: bytes) -> None:
        try:
            attempt(parser, text, scratch)
        except (Exception, TookTooLong) as error:
            defect = type(error).__name__, where(error)
            if defect not in seen and len(seen) < _MOST_FOUND:
                seen.add(defect)
                said = "".join(traceback.format_exception(error))
                (directory / f"found-{len(seen)}").write_text(f"{parser.name}: {text!r}\n{said}")

    longest = max([_LONGEST_TEXT, *(2 * len(sample) for sample in parser.samples)])
    options = [
        f"-max_total_time={seconds}", f"-max_len={longest}", f"-dict={directory / 'tokens'}", "-timeout=20",
        "-rss_limit_mb=2048", "-print_final_stats=1", f"-artifact_prefix={directory}/",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(corpus)], read)
    atheris.Fuzz()


def _escaped(token: bytes) -> str:
    """The escaped form in libFuzzer's dictionaries."""
    return "".join(f"\\x{byte:02x}" for byte in token)


if __name__ == "__main__":
    sys.exit(main())
