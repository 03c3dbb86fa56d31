"""`octavo binary`: published listings as reference, verdicts, packages, directories, and damaged files."""

import gzip
import io
import json
import lzma
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.tools import needs
from tests.unit.elf_files import CASAL, ENTRY, LDADDAL, LDR, NOP, RET, X86_64, call, elf, helper, words
from typer.testing import CliRunner

from octavo.binary.core_types import ElfReport
from octavo.binary.listing import document, lines
from octavo.binary.read import Program, read, read_one
from octavo.binary.verdict import gcc_version, level_of, tally, verdict
from octavo.cli.app import app
from octavo.errors import UsageError

LDCLRAL, LDSETAL, SWPA = 0xB8E01020, 0xB8E03020, 0xB8A08020
LDAXR, LDXR, STLXR, STXR = 0x885FFC20, 0x885F7C20, 0x8811FC41, 0x88117C41

# Franck Pachot, "PostgreSQL on Oracle free tier ARM" (2021): the listings of his three builds, as printed by objdump,
# awk, sort and uniq, and the instructions of each.
ALWAYS = """\
      1 ldclral	(large-system extensions)
      3 ldsetal	(large-system extensions)
     12 ldaddal	(large-system extensions)
     15 casal	(large-system extensions)
     31 swpa	(large-system extensions)
"""
OUTLINED = """\
      1 ldclral	(large-system extensions)
      1 ldsetal	(large-system extensions)
      1 stxr	(load and store exclusives)
      1 swpa	(large-system extensions)
      2 casal	(large-system extensions)
      2 ldaddal	(large-system extensions)
      6 stlxr	(load and store exclusives)
      7 ldaxr	(load and store exclusives)
"""
NEVER = """\
     15 ldaxr	(load and store exclusives)
     31 stlxr	(load and store exclusives)
     31 stxr	(load and store exclusives)
     47 ldxr	(load and store exclusives)
"""
ALWAYS_CODE = words(LDCLRAL, *[LDSETAL] * 3, *[LDADDAL] * 12, *[CASAL] * 15, *[SWPA] * 31)
NEVER_CODE = words(*[LDAXR] * 15, *[STLXR] * 31, *[STXR] * 31, *[LDXR] * 47)


def outlined_code() -> bytes:
    """Seven helpers as in libgcc, and three calls of the first two."""
    first = helper(SWPA, NOP, LDAXR, STXR)
    rest = b"".join(helper(lse, NOP, LDAXR, STLXR) for lse in (CASAL, CASAL, LDADDAL, LDADDAL, LDCLRAL, LDSETAL))
    helpers = first + rest
    end = len(helpers)
    return helpers + call(end, 0) + call(end + 4, 0) + call(end + 8, len(first)) + words(RET)


def read_code(place: Path, code: bytes, machine: int = 183, comment: bytes = b"") -> ElfReport:
    place.write_bytes(elf(code, machine, comment))
    return read_one(place)


def x86(place: Path, code: str) -> ElfReport:
    return read_code(place, bytes.fromhex(code), X86_64)


@pytest.mark.parametrize(
    ("code", "listing", "word"),
    [(ALWAYS_CODE, ALWAYS, "lse"), (outlined_code(), OUTLINED, "outlined"), (NEVER_CODE, NEVER, "no-lse")],
)
def test_published_listings_are_known_answers(tmp_path: Path, code: bytes, listing: str, word: str) -> None:
    report = read_code(tmp_path / "postgres", code)
    assert "".join(f"{line}\n" for line in lines(Program("postgres", report))) == listing
    assert verdict(report).word == word


def test_calls_of_outlined_helpers_are_counted_in_a_stripped_program(tmp_path: Path) -> None:
    report = read_code(tmp_path / "x", outlined_code())
    helpers = dict(report["helpers"])
    assert (helpers["__aarch64_swp4_acq"], helpers["__aarch64_cas8_acq_rel"]) == (2, 1)
    assert tally(report).calls == 3 and (tally(report).lse, tally(report).exclusive) == (0, 0)
    assert verdict(report).line == "LSE when the CPU has it (outlined)"


def test_helpers_that_nothing_calls_change_no_verdict(tmp_path: Path) -> None:
    report = read_code(tmp_path / "x", helper(CASAL, LDAXR, STLXR) + words(LDXR, STXR))
    assert verdict(report).word == "no-lse"
    mixed = verdict(read_code(tmp_path / "x", words(CASAL, LDXR, STXR)))
    assert (mixed.word, mixed.line) == ("mixed", "1 LSE instructions beside 2 exclusives")
    called = verdict(read_code(tmp_path / "x", outlined_code() + words(CASAL)))
    assert called.line == "1 LSE instructions beside 3 calls of helpers of outlined atomics"
    assert verdict(read_code(tmp_path / "x", words(LDR, NOP, *ENTRY))).word == "none"


@pytest.mark.parametrize(
    ("comment", "gcc", "advice"),
    [
        (b"GCC: (Debian 12.2.0-14) 12.2.0\0", (12, 2), "GCC 12.2 outlines by default, so it was built with"),
        (
            b"GCC: (GNU) 9.3.1 20200408 (Red Hat 9.3.1-2)\0",
            (9, 3),
            "GCC 9.3 does not outline by default, 10.1 and later do; build it with one of these, or",
        ),
        (b"GCC: (GNU) 7.3.1 20180303 (Red Hat 7.3.1-5)\0GCC: (GNU) 11.1.0\0", (7, 3), "GCC 7.3 does not outline"),
        (b"Debian clang version 14.0.6\0", None, "GCC outlines by default since 10.1"),
        # crt1.o is of the GCC that glibc was built with.
        (b"GCC: (Debian 12.2.0-14) 12.2.0\0Debian clang version 11.0.1-2\0", None, "GCC outlines by default since"),
    ],
)
def test_a_verdict_knows_when_gcc_began_to_outline(
    tmp_path: Path, comment: bytes, gcc: tuple[int, int] | None, advice: str
) -> None:
    report = read_code(tmp_path / "x", NEVER_CODE, comment=comment)
    assert gcc_version(report) == gcc
    assert verdict(report).advice.startswith(advice)


def test_x86_atomics_and_levels(tmp_path: Path) -> None:
    # lock xadd, xchg with memory, xchg of registers, lock or, ret
    report = x86(tmp_path / "x", "f00fc107 8707 87c3 f0830c2400 c3")
    assert [line.split("\t")[0] for line in lines(Program("x", report))] == [
        "      1 lock or",
        "      1 lock xadd",
        "      1 xchg",
    ]
    assert level_of(report) == ("x86-64", "")
    popcnt, shlx, zmm, tzcnt = "f30fb8c7", "c4e2f9f7c0", "62f1fd48efc0", "f30fbcc7"
    assert level_of(x86(tmp_path / "x", popcnt))[0] == "x86-64-v2"
    assert level_of(x86(tmp_path / "x", popcnt + shlx))[0] == "x86-64-v3"
    assert level_of(x86(tmp_path / "x", zmm))[0] == "x86-64-v4"
    # Older CPUs execute it as bsf: compilers use it for every CPU.
    assert level_of(x86(tmp_path / "x", tzcnt))[0] == "x86-64"


def test_a_level_that_is_chosen_at_run_time_is_not_needed(tmp_path: Path) -> None:
    cpuid, popcnt, stretch = "0fa2", "f30fb8c7", "90" * 4096
    chosen = x86(tmp_path / "x", cpuid + popcnt + stretch * 60)
    assert chosen["detects_cpu"] and level_of(chosen) == ("x86-64", "")
    assert level_of(x86(tmp_path / "x", popcnt + stretch * 40))[0] == "x86-64-v2"
    everywhere = x86(tmp_path / "x", cpuid + (popcnt + stretch) * 40)
    assert level_of(everywhere)[0] == "x86-64-v2"
    level, doubt = level_of(x86(tmp_path / "x", cpuid + (popcnt + stretch * 9) * 4))
    assert level == "x86-64" and "x86-64-v2 is in 11% of the code" in doubt


def package(place: Path, kind: str = "xz") -> Path:
    """A Debian package with a program, a link to it, and a name that is longer than tar's field."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in ("./usr/bin/postgres", f"./usr/lib/{'long/' * 40}x.so", "./usr/share/doc"):
            content = b"text" if name.endswith("doc") else elf(ALWAYS_CODE)
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("./usr/bin/postmaster")
        link.type, link.linkname = tarfile.SYMTYPE, "postgres"
        archive.addfile(link)
    packed = {"": bytes, "gz": gzip.compress, "xz": lzma.compress}[kind](data.getvalue())
    return ar(place, {"debian-binary": b"2.0\n", f"data.tar{'.' if kind else ''}{kind}": packed})


def ar(place: Path, members: dict[str, bytes]) -> Path:
    found = b"!<arch>\n"
    for name, content in members.items():
        found += f"{name:16}{0:<12}{0:<6}{0:<6}{'100644':8}{len(content):<10}`\n".encode()
        found += content + b"\n" * (len(content) % 2)
    place.write_bytes(found)
    return place


@pytest.mark.parametrize("kind", ["", "gz", "xz"])
def test_packages_are_read_without_unpacking_to_a_disk(tmp_path: Path, kind: str) -> None:
    path = package(tmp_path / "x.deb", kind)
    found = read(path)
    assert [one.name for one in found] == [f"{path}:usr/bin/postgres", f"{path}:usr/lib/{'long/' * 40}x.so"]
    assert all(one.report and verdict(one.report).word == "lse" for one in found)
    assert [one.name for one in tmp_path.iterdir()] == ["x.deb"]


@needs("dpkg-deb")
@pytest.mark.parametrize("kind", ["none", "gzip", "xz", "zstd"])
def test_packages_of_dpkg_are_read(tmp_path: Path, kind: str) -> None:
    root, path = tmp_path / "root", tmp_path / "x.deb"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN/control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.invalid>\nDescription: x\n"
    )
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/postgres").write_bytes(elf(outlined_code()))
    done = subprocess.run(["dpkg-deb", f"-Z{kind}", "-b", root, path], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"dpkg-deb does not pack with {kind}")
    assert [one.name for one in read(path)] == [f"{path}:usr/bin/postgres"]


def test_archives_of_objects_are_read(tmp_path: Path) -> None:
    found = read(ar(tmp_path / "x.a", {"/": b"symbols", "a.o/": elf(ALWAYS_CODE), "text/": b"text"}))
    assert [one.name for one in found] == [f"{tmp_path}/x.a:a.o"]


def test_nothing_but_regular_files_is_opened_below_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a device may have an effect."""
    (tmp_path / "a.so").write_bytes(elf(ALWAYS_CODE))
    os.mkfifo(tmp_path / "fifo")
    opened, real = list[str](), os.open

    def recorded(path: str | Path, *arguments: int, dir_fd: int | None = None) -> int:
        opened.append(Path(path).name)
        return real(path, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", recorded)
    assert [one.name for one in read(tmp_path)] == [str(tmp_path / "a.so")]
    assert "a.so" in opened and "fifo" not in opened


def test_a_directory_is_walked_and_no_link_followed(tmp_path: Path) -> None:
    below = tmp_path / "top" / "lib"
    below.mkdir(parents=True)
    (below / "b.so").write_bytes(elf(ALWAYS_CODE))
    (below / "a.so").write_bytes(elf(NEVER_CODE))
    (below / "damaged").write_bytes(elf(NEVER_CODE)[:100])
    (below / "text").write_text("text")
    os.mkfifo(below / "fifo")
    (tmp_path / "elsewhere").write_bytes(elf(NEVER_CODE))
    (below / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "top" / "loop").symlink_to(tmp_path)
    found = read(tmp_path / "top")
    assert [Path(one.name).name for one in found] == ["a.so", "b.so", "damaged"]
    assert "truncated" in found[2].problem and found[2].report is None
    assert document(found)["programs"][2]["problem"] == found[2].problem


def test_every_beginning_of_a_file_has_an_answer_or_a_line(tmp_path: Path) -> None:
    whole = elf(outlined_code(), comment=b"GCC: (GNU) 11.1.0\0")
    deb = package(tmp_path / "x.deb").read_bytes()
    part = tmp_path / "part"
    for content in (whole, deb):
        for length in range(0, len(content), 7):
            part.write_bytes(content[:length])
            try:
                read(part)
            except UsageError as error:
                assert "\n" not in str(error) and str(part) in str(error)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"#!/bin/sh\n", "is not an ELF file, a package"),
        (b"\x7fELF", "the ELF header lies outside of the file"),
        (elf(b"")[:-1], "the section header table lies outside of the file"),
        (b"!<arch>\n" + b"debian-binary   0           0     0     100644  4         `\n2.0\n", "no data.tar in it"),
    ],
)
def test_what_has_no_answer_says_why(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(problem)):
        read(path)


def test_sections_that_lie_upon_each_other_are_refused(tmp_path: Path) -> None:
    """Otherwise a small file would be read for hours."""
    content = bytearray(elf(ALWAYS_CODE))
    start = int.from_bytes(content[40:48], "little")
    number = 60_000
    content[start:] = bytes(content[start + 64 : start + 128]) * number
    content[60:64] = number.to_bytes(2, "little") + b"\0\0"
    path = tmp_path / "x"
    path.write_bytes(content)
    # The maximum of sections that fit into the file; with one more their sum is larger.
    content[start + 32 : start + 40] = (len(content) // 2).to_bytes(8, "little")
    path.write_bytes(content)
    with pytest.raises(UsageError, match="executable parts overlap"):
        read(path)


def call_command(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    import typer

    with typer.main.get_command(app).make_context("octavo", ["binary", *arguments]) as context:
        try:
            typer.main.get_command(app).invoke(context)
        except typer.Exit as error:
            return error.exit_code, capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "postgres"
    program.write_bytes(elf(NEVER_CODE, comment=b"GCC: (Debian 12.2.0-14) 12.2.0\0"))
    assert call_command(str(program), "--format", "objdump", capsys=capsys) == (0, NEVER)
    code, text = call_command(str(program), capsys=capsys)
    assert code == 0 and "no LSE: contended locks will suffer" in " ".join(text.split())
    found: dict[str, Any] = json.loads(call_command(str(program), "--format", "json", capsys=capsys)[1])
    (one,) = found["programs"]
    assert (one["verdict"], one["gcc"], one["sums"]["exclusive"]) == ("no-lse", "12.2", 124)
    code, text = call_command(str(program), str(tmp_path / "nothing"), capsys=capsys)
    assert code == 2 and "no LSE" in text
    with pytest.raises(UsageError, match="No such file"):
        call_command(str(tmp_path / "nothing"), capsys=capsys)


def test_the_listing_says_what_it_could_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(elf(NEVER_CODE))
    (tmp_path / "b").write_bytes(elf(NEVER_CODE)[:100])
    ran = CliRunner().invoke(app, ["binary", str(tmp_path), "--format", "objdump"])
    assert (ran.exit_code, ran.stdout) == (0, f"{tmp_path}/a:\n{NEVER}")
    assert ran.stderr.startswith(f"octavo: {tmp_path}/b ")
