"""The command line accepts every `octavo …` line in a code block of README.md and docs/, and bash can parse every block
marked as shell."""

import re
import shlex
import subprocess
from collections.abc import Iterator
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
_SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:sudo )?(?:\./)?octavo (.*)$")
_OPTIONAL = re.compile(r"(?<=\s)\[[^\]]*\]")  # in a synopsis
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
    """The words of the command as a shell splits them, up to a pipe, a redirection or a comment."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in _PIPES:
            break
        words.append(word)
    return words


# `octavo` with all its commands, created once because it takes a moment.
_whole = cache(lambda: typer.main.get_command(app))


def refusal(arguments: list[str]) -> str | None:
    """Why `octavo` would not accept the arguments, or None; parses without running anything."""
    command = _whole()
    name, words = "octavo", list(arguments)
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        name = words.pop(0)
        command = command.commands[name]
    try:
        context = command.make_context(name, list(words))
        if isinstance(command, TyperGroup):
            _, rest, _ = command.make_parser(context).parse_args(words)
            if rest and rest[0] not in command.commands:
                return f"{name} has no command {rest[0]}"
    except typer.Exit:  # --help, --version
        return None
    except TyperException as error:
        return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_commands_parse(page: Path) -> None:
    refused = {command: why for command in commands(page) if (why := refusal(arguments_of(command)))}
    assert not refused


def test_two_commands_in_one_line_are_refused() -> None:
    assert refusal(["build", "--data-block", "4kB", "octavo", "run", "thp"]) == "build has no command octavo"
    assert refusal(["build", "--data-block", "4kB"]) is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_blocks_are_what_a_shell_can_read(page: Path) -> None:
    for block in _SHELL.findall(page.read_text()):
        read = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True, check=False)
        assert read.returncode == 0, f"{block}\n{read.stderr}"


_EXAMPLE = re.compile(r"^(?:Examples?: )?octavo (.*)$|\$\(octavo ([^)]*)\)", re.MULTILINE)


def helps(command: object, name: str = "octavo") -> Iterator[tuple[str, str]]:
    """The name and the help of a command, and of those in it."""
    yield name, getattr(command, "help", None) or ""
    for each, inner in getattr(command, "commands", {}).items():
        yield from helps(inner, f"{name} {each}")


def test_examples_in_the_help_parse() -> None:
    """An example is on a line of its own; a comment follows it after several blanks."""
    found = 0
    for name, text in helps(_whole()):
        for paragraph in text.split("\n\n"):
            if "Example" not in paragraph and not paragraph.startswith("\b"):
                continue
            for match in _EXAMPLE.finditer(paragraph):
                found += 1
                example = (match[1] or match[2]).partition("  ")[0]
                assert refusal(arguments_of(example)) is None, f"{name}: octavo {example}"
    assert found > 40
