"""What is printed for people."""

import contextlib
import os

import pytest

from octavo.cli.output import console
from octavo.errors import UsageError


def test_a_reader_that_has_gone_is_not_taken_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        with pytest.raises(BrokenPipeError):  # which `main` ends with 0, where rich would exit with 1
            console().print("page")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (("report", "last", "--html", "page.html", "--format", "json"), "and --format prints; give one of them"),
        (("report", "last", "--png", "charts", "--format", "csv"), "and --format prints; give one of them"),
        (("compare", "one", "other", "--html", "page.html", "--format", "md"), "and --format prints; give one of them"),
        (("predict", "shop.octrace", "--against", "last", "--out", "page.html"), "--against has none"),
        (("predict", "shop.octrace", "--memory", "16GB,32GB"), "--memory 16GB,32GB: give one size"),
        (("predict", "shop.octrace", "--kernel-page", "4kB,16kB"), "--kernel-page 4kB,16kB: give one size"),
    ],
)
def test_what_a_command_would_ignore_is_refused(command: tuple[str, ...], problem: str) -> None:
    from typer.testing import CliRunner

    from octavo.cli.app import app

    ran = CliRunner().invoke(app, command)
    assert isinstance(ran.exception, UsageError) and problem in str(ran.exception)
