"""Programs and libraries: their dependencies, and stripping debug symbols."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.host import children, trees
from octavo.host.children import build_account
from octavo.host.copy_out import copy_out
from octavo.host.journal import Journal

_ENTRY = re.compile(r"\((NEEDED|SONAME)\).*\[(.*)\]")


@dataclass(frozen=True, slots=True)
class Linkage:
    """Of a tree: its programs and libraries, and the libraries (by SONAME) that it needs from the system."""

    files: tuple[Path, ...]
    needed: tuple[str, ...]


def linked_files(tree: Path) -> list[Path]:
    """The tree's programs and shared libraries (ELF), in the order of their paths."""
    return list(_files_that_begin(tree, b"\x7fELF"))


def strip(tree: Path, work: Path, journal: Journal) -> None:
    """Replaces the tree, which is ours, by one without symbols that only a debugger reads.

    A build may be compiled from untrusted source, so binutils read and write it as the account, in a copy below `work`,
    which must not exist yet.
    """
    account = build_account()
    trees.make_for(work, account)
    arguments = ["cp", "-R", "--preserve=mode,links", "-T", tree, work / "tree"]
    children.check(children.run(arguments, journal, role="copy", account=account), f"copying {tree}")
    _strip(work / "tree", journal)
    trees.remove(tree)
    copy_out(work, "tree", tree, account)
    trees.remove(work)


def _strip(tree: Path, journal: Journal) -> None:
    """Takes symbol tables and debug information out of every program and library of the tree, as dh_strip(1) does."""
    archives = list(_files_that_begin(tree, b"!<arch>\n"))
    for options, files in (
        (["--strip-unneeded", "--remove-section=.comment"], linked_files(tree)),
        (["--strip-debug", "--enable-deterministic-archives"], archives),
    ):
        if files:
            _binutils("strip", *options, *files, journal=journal)


def linkage(tree: Path, journal: Journal) -> Linkage:
    """The libraries that the tree's programs need from the system.

    Raises OctavoError if the tree has a library that its programs cannot find under its name: they would use the
    system's, which may be of another version.
    """
    files = tuple(linked_files(tree))
    text = _binutils("readelf", "--wide", "--dynamic", *files, journal=journal) if files else ""
    found: dict[str, set[str]] = {"NEEDED": set(), "SONAME": set()}
    for kind, name in _ENTRY.findall(text):
        found[kind].add(name)
    inside = {path.name for path in (tree / "lib").iterdir() if path.exists()}  # a link may lead nowhere
    if missing := sorted((found["NEEDED"] & found["SONAME"]) - inside):
        raise OctavoError(
            f"the build is incomplete: its programs need {missing[0]}, which is not in its lib; "
            "remove the build's directory and build it again"
        )
    return Linkage(files, tuple(sorted(found["NEEDED"] - inside)))


def _files_that_begin(tree: Path, magic: bytes) -> Iterator[Path]:
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(len(magic)) == magic:
                    yield path


def _binutils(tool: str, *arguments: str | Path, journal: Journal) -> str:
    if shutil.which(tool, path=children.PLAIN_PATH) is None:
        raise HostError(f"{tool} is missing; script/bootstrap installs it with the compiler (binutils)")
    return children.check(children.run([tool, *arguments], journal, role=tool, account=build_account()), tool).stdout
