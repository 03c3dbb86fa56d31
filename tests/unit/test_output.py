"""What is printed for people."""

import contextlib
import os

import pytest

from octavo.cli.output import console


def test_a_reader_that_has_gone_is_not_taken_for_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with contextlib.suppress(BrokenPipeError), os.fdopen(write, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        with pytest.raises(BrokenPipeError):  # which `main` ends with 0, where rich would exit with 1
            console().print("page")
