"""External text cannot move the cursor, change colours, reverse the text direction, or be a formula."""

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from octavo.cli.output import console
from octavo.iotop.terminal_text import one_line as one_line_of_a_process
from octavo.report import csv_rows, markdown
from octavo.report.document import clean
from octavo.text import UNPRINTABLE, csv_cell, guarded, one_line, printable, unguarded

_EVIL = (
    "\x1b[2J\x1b]0;title\x07red\x1b[31m \x9b1m back\x08\x08 \r over \u202eright\u202c \u2066isolate\u2069 \u200emark"
    "\u061c \ud800 \x7f \x00 [bold]markup[/bold] \u2028line"
)
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@pytest.mark.parametrize("function", [printable, one_line, clean, one_line_of_a_process])
def test_nothing_that_a_terminal_obeys_is_left(function: object) -> None:
    assert callable(function)
    shown = str(function(_EVIL))
    assert not _OBEYED.search(shown)
    assert "[bold]markup[/bold]" in shown, "what is harmless stays"


def test_every_control_character_is_known() -> None:
    for code in (*range(0x20), *range(0x7F, 0xA0)):
        assert UNPRINTABLE.fullmatch(chr(code))
    assert printable("a\n\tb — ü 漢 🐘") == "a\n\tb — ü 漢 🐘"


def test_what_is_invisible_is_seen() -> None:
    """A name with tag characters looks like another name."""
    for character in "\u200b\u2060\u206a\ufff9\U000e0001\U000e0041":
        assert one_line(f"a{character}b") == printable(f"a{character}b") == "a\ufffdb"
    joined = "\u0646\u200c\u062e 👩\u200d💻 \u0600"
    assert one_line(joined) == joined


def test_a_console_shows_text_and_obeys_none(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", guarded(out))
    table = Table(title=_EVIL)
    table.add_column(_EVIL)
    table.add_row(_EVIL)
    table.add_row(Text(_EVIL))
    console().print(_EVIL, Group(table, Padding(Text(_EVIL), 1)), _EVIL, soft_wrap=True)
    shown = out.getvalue()
    assert not _OBEYED.search(shown)
    assert "[bold]" in shown.replace("\n", "")


def test_a_console_keeps_its_own_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", guarded(out))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    console().print(Text("red", style="red"))
    assert out.getvalue() == "\x1b[31mred\x1b[0m\n"


def test_a_stream_is_guarded_once_for_all_that_prints(capsys: pytest.CaptureFixture[str]) -> None:
    stream = guarded(sys.stdout)
    print(_EVIL, file=stream)
    stream.writelines([_EVIL])
    assert not _OBEYED.search(capsys.readouterr().out)
    assert unguarded(stream) is sys.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "a\x1b[31m\u202e.toml"],
        ["run", os.fsdecode(b"\xff\x9b.toml")],
        ["\x1b[31m"],
        ["report", os.fsdecode(b"\xff\x1b[31m")],
        ["watch", "--dsn", "host=/nowhere/\x1b[31m"],
        ["iotop", "--device", os.fsdecode(b"/dev/\xff\x1b[31m")],
    ],
)
def test_errors_are_a_line_that_a_terminal_can_show(arguments: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "OCTAVO_HOME": str(tmp_path), "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "octavo", *arguments], capture_output=True, check=False, env=environment
    )
    said = ended.stderr.decode()
    assert ended.returncode in (1, 2, 3), said
    assert said.startswith("octavo: ") and said.count("\n") == 1, said
    assert not _OBEYED.search(said)


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-cmd|'/c calc'!A0", "@SUM(A1)", "\t=1", "\r=1", "-1-1", "+", "=5"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert csv_cell(text).startswith("'")
    assert not _OBEYED.search(csv_cell(text))


@pytest.mark.parametrize("value", ["-5", "+0.5", "-1e-3", "8kB", "", -5, 0.25, None, True, "a=b", "a-b"])
def test_what_is_no_formula_stays(value: object) -> None:
    assert csv_cell(value) == value


def test_csv_of_a_report() -> None:
    document = {
        "trials": [
            {
                "id": 1, "round": 1, "part": 1, "attempt": 1, "position": 1, "load": 1, "cell": "=cell",
                "levels": {"=factor": "@level"}, "status": "ok", "used": True,
                "observations": [
                    {"item": "-item\x1b", "repetition": None, "metric": "+metric", "value": -1.5, "unit": "ms"}
                ],
            }
        ],
        "factors": [{"name": "=factor"}],
        "cells": [{"levels": {"=factor": "@level"}}],
    }  # fmt: skip
    rows = list(csv.reader(io.StringIO(csv_rows.render(document))))
    assert all(not cell.startswith(("=", "+", "@")) for row in rows for cell in row)
    assert "-1.5" in rows[1]
    assert "'-item\ufffd" in rows[1]


def test_markdown_stays_text() -> None:
    shown = markdown.safe("a|b\n# head\n<img src=x> [link](x) *b* `c` \x1b[31m\u202e")
    assert "\n" not in shown
    assert "\\|" in shown and "\\<img" in shown and "\\[link\\]" in shown
    assert not _OBEYED.search(shown)
