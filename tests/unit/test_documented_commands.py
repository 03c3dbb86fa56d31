"""Every `octavo …` line in a code block of README.md and docs/ is one that the command line accepts."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import typer
from typer import TyperException
from typer.core import TyperGroup

from octavo.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:sudo )?(?:\./)?octavo (.*)$")
_OPTIONAL = re.compile(r"(?<=\s)\[[^\]]*\]")  # of a synopsis
_PIPES = ("|", "||", "&&", ";", "&", ">", ">>", "<", "2>")


def commands(page: Path) -> list[str]:
    """The arguments of each command in the code blocks of a page."""
    found: list[str] = []
    for block in _BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            if (match := _COMMAND.match(line)) and not match[1].startswith("= "):  # a key of a TOML file
                found.append(_OPTIONAL.sub("", match[1]))
    return found


def arguments_of(command: str) -> list[str]:
    """Its words as a shell splits them, up to a pipe, a redirection or a comment."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in _PIPES:
            break
        words.append(word)
    return words


# `octavo` with all its commands, made once: it takes a moment.
_whole = cache(lambda: typer.main.get_command(app))


def refusal(arguments: list[str]) -> str | None:
    """Why `octavo` would not accept them, or None; parses and runs nothing."""
    command = _whole()
    name, words = "octavo", list(arguments)
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        name = words.pop(0)
        command = command.commands[name]
    if isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        return f"{name} has no command {words[0]}"
    try:
        command.make_context(name, words)
    except typer.Exit:  # --help, --version
        return None
    except TyperException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_parse(page: Path) -> None:
    refused = {command: why for command in commands(page) if (why := refusal(arguments_of(command)))}
    assert not refused
