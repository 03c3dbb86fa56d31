"""The keys of findings about the sizes: the same inputs give the same key, any other input another one."""

from dataclasses import replace
from pathlib import Path

import pytest

from octavo.postgres.builds.commands import Command
from octavo.postgres.builds.findings import Findings, shipped

FINDINGS = Findings("gcc 12.2.0, x86_64-linux-gnu", "ab" * 32)
COMMAND = Command(("gcc", "-O2", "-o", "a.o", "-c", "../source/a.c"), "a.o")
HEADER = "src/include/pg_config.h"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return fill(tmp_path / "one")


def fill(work: Path) -> Path:
    """A workspace with a source, a header, and a generated file that contains the path."""
    for name, text in (
        ("source/a.c", "int a;\n"),
        (f"build/{HEADER}", "#define BLCKSZ 8192\n"),
        ("build/scan.c", f'#line 1 "{work}/scan.l"\n'),
    ):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return work


def key(work: Path, findings: Findings = FINDINGS, command: Command = COMMAND, header: str = "same") -> str:
    read = {"a.o": ["../source/a.c", HEADER, "scan.c"]}
    return findings.keys_of_compilations([command], read, work / "build", work, {HEADER: header})["a.o"]


def test_the_place_and_the_sizes_do_not_matter(work: Path, tmp_path: Path) -> None:
    first = key(work)
    (work / "build" / HEADER).write_text("#define BLCKSZ 4096\n")
    assert key(work) == first == key(fill(tmp_path / "another"))


def test_everything_that_the_compiler_reads_does(work: Path) -> None:
    keys = [key(work), key(work, replace(FINDINGS, compiler="gcc 13")), key(work, header="another option")]
    keys.append(key(work, command=Command(("gcc", "-O3", *COMMAND.words[2:]), "a.o")))
    for name in ("source/a.c", "build/scan.c"):
        (work / name).write_text("int b;\n")
        keys.append(key(work))
    assert len(set(keys)) == len(keys)


def test_a_compilation_whose_inputs_nobody_knows_has_no_key(work: Path) -> None:
    assert FINDINGS.keys_of_compilations([COMMAND], {}, work / "build", work, {}) == {}


def test_a_configuration_is_its_source_how_it_was_asked_for_and_what_came_out(work: Path) -> None:
    files = {"build.ninja": b"x"}
    keys = {
        FINDINGS.key_of_configuration(["-O2"], files, work),
        replace(FINDINGS, source="cd" * 32).key_of_configuration(["-O2"], files, work),
        FINDINGS.key_of_configuration(["-O3"], files, work),
        FINDINGS.key_of_configuration(["-O2"], {"build.ninja": b"y"}, work),
        FINDINGS.key_of_configuration(["-O2"], {**files, "other.h": b""}, work),
    }
    assert len(keys) == 5


def test_what_is_kept_is_known_the_next_time_and_the_oldest_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("octavo.postgres.builds.findings._MOST_KEPT", 3)
    findings = replace(FINDINGS, known=frozenset({"shipped"}), cache=tmp_path)
    assert findings.with_kept().known == {"shipped"}
    findings.keep(["b", "a"])
    findings.keep(["a", "c"])
    assert findings.with_kept().known == {"shipped", "a", "b", "c"}
    findings.keep(["d"])
    assert findings.with_kept().known == {"shipped", "a", "c", "d"}
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"\xff")
    assert findings.with_kept().known == {"shipped"}
    replace(FINDINGS).keep(["without a cache"])


def test_a_version_without_findings_has_none() -> None:
    assert shipped("18.99") == frozenset()
