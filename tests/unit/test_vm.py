"""Emulated machines: the contents of an image, qemu's command line, the job's disk, and its output."""

import io
import json
import os
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from octavo.cli import vm as cli
from octavo.errors import HostError, OctavoError, UsageError
from octavo.host.journal import Journal
from octavo.vm import atomics, images, initramfs, job, output
from octavo.vm.build import _check_page  # pyright: ignore[reportPrivateUsage]
from octavo.vm.images import FILES, Image
from octavo.vm.initramfs import DIRECTORY, FILE, Entry, in_order, modules_in, pack
from octavo.vm.kernels import MACHINES, kernel_package, machine_of
from octavo.vm.machine import Limits, command
from octavo.vm.packages import Package, identity

_MB = 1024**2
ARM = MACHINES["aarch64"]
LIMITS = Limits(memory=1024 * _MB, disk=4096 * _MB, cpus=2, seconds=90.5)


def unpacked(archive: bytes) -> Iterator[Entry]:
    """The entries of a cpio archive of kind newc, read by the format's specification and not by the code that writes
    it."""
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = archive[at + 110 : at + 110 + fields[11]].rstrip(b"\0").decode()
        at = (at + 110 + fields[11] + 3) // 4 * 4
        content = archive[at : at + fields[6]]
        at = (at + fields[6] + 3) // 4 * 4
        assert fields[2:4] == [0, 0]
        if name == "TRAILER!!!":
            assert at == len(archive)
            return
        yield Entry(name, fields[1], content)


# ── The first filesystem ──────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.text("abc/._-", min_size=1, max_size=20), st.binary(max_size=30))))
def test_what_is_packed_is_unpacked(files: list[tuple[str, bytes]]) -> None:
    entries = [Entry("modules", DIRECTORY), *(Entry(name, FILE, content) for name, content in files)]
    assert list(unpacked(pack(entries))) == entries


def module(needs: str) -> bytes:
    return b"\x7fELF\0license=GPL\0depends=" + needs.encode() + b"\0name=x\0"


def test_modules_come_after_what_they_need(tmp_path: Path) -> None:
    needs = {"ext4": "mbcache,jbd2", "mbcache": "", "jbd2": "", "virtio_blk": "", "crc16": ""}
    for name, others in needs.items():
        (tmp_path / f"{name.replace('_', '-')}.ko").write_bytes(module(others))
    (tmp_path / "modules.order").write_text("none of ours")
    there = modules_in(tmp_path)
    assert set(there) == set(needs)
    # One that is built into the kernel is not a file.
    names = [name for name, _ in in_order(["virtio_pci", "ext4", "virtio_blk", "ext4"], there)]
    assert names == ["mbcache", "jbd2", "ext4", "virtio_blk"]


def test_a_module_that_is_needed_and_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "ext4.ko").write_bytes(module("jbd2"))
    with pytest.raises(OctavoError, match="has no module jbd2, which ext4 needs"):
        in_order(["ext4"], modules_in(tmp_path))


def test_modules_in_a_circle_end(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.ko").write_bytes(module(other))
    assert {name for name, _ in in_order(["a"], modules_in(tmp_path))} == {"a", "b"}


def test_a_compressed_module_is_read(tmp_path: Path) -> None:
    import lzma

    (tmp_path / "xfs.ko.xz").write_bytes(lzma.compress(module("")))
    assert initramfs.read_module(modules_in(tmp_path)["xfs"]) == module("")


def test_modules_that_cannot_be_read_are_not_taken_for_built_in(tmp_path: Path) -> None:
    """The image was made, and no machine that booted it found its disks."""
    (tmp_path / "ext4.ko.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    with pytest.raises(OctavoError, match=r"ext4\.ko\.zst: .*CONFIG_MODULE_COMPRESS_XZ"):
        modules_in(tmp_path)


# ── Kernels and packages ──────────────────────────────────────────────────────────────────────


def test_a_page_that_debian_has_no_kernel_of_says_so() -> None:
    with pytest.raises(HostError, match=r"builds no arm64 kernel with 64 kB pages.*--kernel-package"):
        kernel_package(ARM, "64kB")
    with pytest.raises(UsageError, match="x86-64 has no kernel page of '16kB'; it has 4kB"):
        kernel_package(MACHINES["x86-64"], "16kB")
    with pytest.raises(UsageError, match="no machine 'vax'"):
        machine_of("vax")


def test_a_kernel_of_another_page_is_refused(tmp_path: Path) -> None:
    configuration = tmp_path / "config"
    configuration.write_text("CONFIG_ARM64=y\n# CONFIG_ARM64_4K_PAGES is not set\nCONFIG_ARM64_16K_PAGES=y\n")
    _check_page(configuration, ARM, "16kB")
    with pytest.raises(OctavoError, match="pages of 16 kB and not of 64kB"):
        _check_page(configuration, ARM, "64kB")
    configuration.write_text("CONFIG_X86_64=y\n")  # before Linux 6.9
    _check_page(configuration, MACHINES["x86-64"], "4kB")
    with pytest.raises(OctavoError, match="pages of 4 kB and not of 16kB"):
        _check_page(configuration, MACHINES["x86-64"], "16kB")


def test_an_image_is_named_by_all_that_is_in_it() -> None:
    one, two = (Package("libc6", version, "f", 1) for version in ("1", "2"))
    assert len({identity([one]), identity([two]), identity([one], "guest"), identity([one, two])}) == 4


# ── The command line ──────────────────────────────────────────────────────────────────────────


def line(**options: object) -> list[str]:
    image = Image("vm-x", Path("/images/a,b"), {}, 0.0)
    return command(ARM, image, Path("/scratch/data"), Path("/scratch/job"), LIMITS, **options)  # type: ignore[arg-type]


def test_a_machine_is_limited_and_alone() -> None:
    words = line()
    qemu = words.index("qemu-system-aarch64")
    assert words[0] == "prlimit" and f"--fsize={4096 * _MB}" in words[:qemu] and "--core=0" in words[:qemu]
    assert words[words.index("timeout") + 2] == "91"
    for option, value in (("-nic", "none"), ("-monitor", "none"), ("-m", "1024M"), ("-smp", "2")):
        assert words[words.index(option) + 1] == value
    assert "spawn=deny" in words[words.index("-sandbox") + 1]
    assert not [word for word in words if "netdev" in word or "hostfwd" in word or "-net" in word]


def test_only_the_data_disk_is_written_and_commas_stay_in_names() -> None:
    disks = [word for word in line() if word.startswith("if=none")]
    assert [disk.rpartition(",")[2] for disk in disks] == ["readonly=on", "cache=unsafe", "readonly=on"]
    assert "file=/images/a,,b/root," in disks[0]


def test_a_cpu_and_the_kernels_words_are_the_users() -> None:
    words = line(cpu="cortex-a72", kernel_arguments=["hugepages=8"])
    assert words[words.index("-cpu") + 1] == "cortex-a72"
    assert words[words.index("-append") + 1].endswith(" hugepages=8")


# ── The job ───────────────────────────────────────────────────────────────────────────────────


def job_of(tmp_path: Path, arguments: list[str], files: dict[str, Path]) -> tarfile.TarFile:
    path = tmp_path / "job"
    job.write(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), arguments, "word", files)
    return tarfile.open(fileobj=io.BytesIO(path.read_bytes()))


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=5))
def test_a_shell_finds_the_arguments_as_they_were(arguments: list[str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        archive = job_of(Path(directory), arguments, {})
        content = archive.extractfile(".command")
        assert content is not None
        assert shlex.split(content.read().decode()) == arguments


def test_arguments_have_any_bytes(tmp_path: Path) -> None:
    content = job_of(tmp_path, ["echo", os.fsdecode(b"\xff")], {}).extractfile(".command")
    assert content is not None
    assert content.read() == b"echo '\xff'\n"


def test_files_are_taken_and_links_are_not(tmp_path: Path) -> None:
    given_files = tmp_path / "given"
    (given_files / "below").mkdir(parents=True)
    (given_files / "below" / "run").write_text("#!/bin/sh\n")
    (given_files / "below" / "run").chmod(0o4755)
    (given_files / "shadow").symlink_to("/etc/shadow")
    os.mkfifo(given_files / "pipe")
    archive = job_of(tmp_path, ["true"], {"given": given_files})
    members = {member.name: member for member in archive.getmembers()}
    assert set(members) == {".command", ".word", "given", "given/below", "given/below/run"}
    assert members["given/below/run"].mode == 0o755 and members["given"].uid == 0


def test_a_copy_has_the_last_part_of_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one" / "two").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "one" / "two")
    names = {".": "two", "..": "one", "../..": tmp_path.name, "/etc/hosts": "hosts", "/etc/": "etc"}
    assert {path: job.name_of(Path(path)) for path in names} == names
    for path in ("/", "/etc/..", ".command", "x/.word"):
        with pytest.raises(UsageError, match="cannot have its name in the machine"):
            job.name_of(Path(path))


@pytest.mark.parametrize(
    ("disk", "said"),
    [(9999, r"more than 9\.76 kB; give fewer, or a larger --disk$"), (2 * 1024**3, r"more than 1 GB; give fewer$")],
)
def test_files_that_do_not_fit_the_disk_are_refused(tmp_path: Path, disk: int, said: str) -> None:
    given = tmp_path / "given"
    with given.open("wb") as file:
        file.truncate(10_000 if disk < 10_000 else 1024**3 + 1)
    with (tmp_path / "job").open("wb") as target, pytest.raises(UsageError, match=said):
        job.write(os.dup(target.fileno()), ["true"], "word", {"given": given}, disk=disk)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"--copy .*gone: No such file"):
        job_of(tmp_path, ["true"], {"gone": tmp_path / "gone"})


# ── Output ────────────────────────────────────────────────────────────────────────────────────


def test_the_last_line_is_the_exit_code() -> None:
    found = output.outcome("a\nb\n\nw0rd 3\n", "w0rd")
    assert found is not None
    assert (found.text, found.returncode) == ("a\nb\n", 3)


@pytest.mark.parametrize(
    "written", ["", "w0rd 0", "x\nw0rd\n", "x\nw0rd 12345\n", "x\nw0rd 0\nmore", "x\nw0rd -1\n", "x\nw0rd ٣\n"]
)
def test_without_a_proper_last_line_nothing_is_believed(written: str) -> None:
    assert output.outcome(written, "w0rd") is None


def test_what_a_terminal_would_obey_is_gone() -> None:
    found = output.outcome("\x1b]0;title\x07text\n\nw0rd 0\n", "w0rd")
    assert found is not None and "\x1b" not in found.text and "text" in found.text


def test_why_a_machine_ended_is_said_in_a_line() -> None:
    for code, elapsed in ((124, 90.1), (137, 95.0)):
        assert "ended after 90 s; give it more with --timeout" in str(output.why_not("", code, 90, elapsed, 2**30))
        full = output.why_not("", code, 90, elapsed, 4096)
        assert isinstance(full, HostError) and "no space left" in str(full) and "--timeout" not in str(full)
    assert "qemu was killed after 12 s" in str(output.why_not("", 137, 90, 12.0, 4096))
    panic = output.why_not("x\n[ 1.0] Kernel panic - not syncing: VFS: no root\x1b[2J\nlater\n", 0, 90, 5.0, 2**30)
    assert "Kernel panic - not syncing: VFS: no root" in str(panic) and "\x1b" not in str(panic)
    last = str(output.why_not("one\n" + "x" * 100_000 + "\n", 1, 90, 5.0, 2**30))
    assert "exit 1" in last and len(last) < 1000 and "\n" not in last


# ── The images ────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "vm"


def made(journal: Journal, name: str, page: str, when: str) -> Image:
    with images.unpublished(name, journal) as work:
        (work / "image").mkdir()
        for file in FILES:
            (work / "image" / file).write_bytes(bytes(100_000))
        manifest = {"machine": "aarch64", "kernel_page": page, "kernel": "k", "postgres": "17", "made": when}
        return images.publish(work / "image", name, manifest)


def test_the_newest_image_of_a_page_is_taken(kept: Path) -> None:
    with Journal() as journal:
        made(journal, "vm-aarch64-16kB-b", "16kB", "2026-01-01T00:00:00Z")
        newer = made(journal, "vm-aarch64-16kB-a", "16kB", "2026-02-01T00:00:00Z")
        made(journal, "vm-aarch64-4kB-c", "4kB", "2026-03-01T00:00:00Z")
        assert images.newest("aarch64", "16kB").name == newer.name
        with pytest.raises(HostError, match="octavo vm build --kernel-page 64kB makes one"):
            images.newest("aarch64", "64kB")
        assert images.remove(newer, journal) >= 300_000
        assert images.remove(newer, journal) == 0  # as another command that had chosen it, too
    assert [image.name for image in images.list_images()] == ["vm-aarch64-16kB-b", "vm-aarch64-4kB-c"]
    assert sorted(path.name for path in kept.iterdir()) == ["vm-aarch64-16kB-b", "vm-aarch64-4kB-c"]


def test_an_image_that_two_commands_make_is_published_once(kept: Path) -> None:
    with Journal() as journal:
        first = made(journal, "vm-aarch64-16kB-a", "16kB", "2026-01-01T00:00:00Z")
        number = (kept / first.name / "kernel").stat().st_ino
        again = made(journal, "vm-aarch64-16kB-a", "16kB", "2026-02-01T00:00:00Z")
    assert again.manifest == first.manifest
    assert (kept / first.name / "kernel").stat().st_ino == number
    assert [path.name for path in kept.iterdir()] == [first.name]


def test_what_failed_leaves_nothing(kept: Path) -> None:
    with Journal() as journal, pytest.raises(OSError), images.unpublished("vm-x", journal) as work:
        (work / "half").write_bytes(b"x")
        raise OSError
    assert not list(kept.iterdir())


@pytest.mark.parametrize("name", ["vm-../x", "../vm-x", "vm-", ".vm-x", "vm-x/y"])
def test_a_name_leads_nowhere_else(kept: Path, name: str) -> None:
    del kept
    with pytest.raises(UsageError, match="there is no image"):
        images.by_name(name)


def test_list_prints_what_is_there(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from octavo.cli.choices import TableFormat

    cli.list_all()
    assert "octavo vm build" in capsys.readouterr().out
    with Journal() as journal:
        made(journal, "vm-aarch64-16kB-b", "16kB", "2026-01-01T00:00:00Z")
    cli.list_all(TableFormat.json)
    (row,) = json.loads(capsys.readouterr().out)
    assert row["kernel_page"] == "16kB" and row["path"] == str(kept / row["name"])


def test_cache_rm_takes_images_too(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from octavo.cli.cache import remove_datasets

    with Journal() as journal:
        made(journal, "vm-aarch64-16kB-b", "16kB", "2026-01-01T00:00:00Z")
    remove_datasets(["vm-aarch64-16kB-b"], all=False, unused_for=None, dry_run=True)
    remove_datasets(None, all=True, unused_for=None, dry_run=True)
    assert capsys.readouterr().out.count("1 of 1 would be removed") == 2
    assert images.list_images()
    with pytest.raises(UsageError, match="there is no image vm-other"):
        remove_datasets(["vm-other"], all=False, unused_for=None, dry_run=True)


# ── Counting atomic instructions ──────────────────────────────────────────────────────────────


def printed(number: int, times: int) -> str:
    """The plugin's output at a mark, when everything was executed this many times."""
    names = (*atomics.EXCLUSIVE, *atomics.LSE, atomics.INSTRUCTIONS)
    return "".join(
        f"octavo-count {number} {where} {name} {times * (n + 1)}\n"
        for where in ("program", "kernel")
        for n, name in enumerate(names)
    )


def test_what_connecting_costs_cancels() -> None:
    # Each pgbench connects, for 7, and runs 10 or 20 transactions, of 3 and of 5.
    at = [7, 7 + 37, 7 + 37 + 67]
    at += [at[2] + 1, at[2] + 1 + 57, at[2] + 1 + 57 + 107]
    console = "boot\n" + "noise\n".join(printed(number, times) for number, times in enumerate(at))
    select, tpcb = atomics.read(console, "max", "postgres (PostgreSQL) 17.12", 10)
    assert (select.counts["ldxr"], tpcb.counts["ldxr"]) == (3, 5)
    assert select.exclusive == 3 * (1 + 2 + 3 + 4) and select.lse == 3 * sum(range(5, 16))


@pytest.mark.parametrize("was", ["octavo-count 5 program ldxr ", "octavo-count 2 program swp "])
def test_counters_that_are_not_whole_are_refused(was: str) -> None:
    console = "".join(printed(number, number) for number in range(6))
    with pytest.raises(OctavoError, match="instead of 6 whole ones"):
        atomics.read(console.replace(was, "x"), "max", "", 10)


def test_the_program_that_marks_is_one_for_arm(tmp_path: Path) -> None:
    from octavo.binary.read import read_one

    (tmp_path / "mark").write_bytes(atomics.mark())
    assert read_one(tmp_path / "mark")["machine"] == 183  # EM_AARCH64


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="no cross-compiler for 64-bit Arm here")
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="no qemu-aarch64 here")
def test_the_plugin_counts_what_a_program_executes(tmp_path: Path) -> None:
    source = tmp_path / "loop.s"
    source.write_text(
        ".arch armv8.3-a\n.global _start\n_start: adr x1, place\n mov w2, 10\n"
        "1: ldaddal w2, w3, [x1]\n swpa w2, w3, [x1]\n cas w2, w3, [x1]\n ldapr w3, [x1]\n ldar w3, [x1]\n"
        " ldaxr w3, [x1]\n stlxr w4, w3, [x1]\n subs w2, w2, 1\n b.ne 1b\n hint 96\n mov x8, 93\n mov x0, 0\n svc 0\n"
        ".data\n.align 4\nplace: .word 0\n"
    )
    plugin = resources.files("octavo.vm").joinpath("plugin", "atomics.c").read_bytes()
    (tmp_path / "atomics.c").write_bytes(plugin)
    for command_line in (
        ["aarch64-linux-gnu-gcc", "-nostdlib", "-static", "-o", "loop", "loop.s"],
        ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", "atomics.so", "atomics.c"],
    ):
        subprocess.run(command_line, cwd=tmp_path, check=True)
    ran = subprocess.run(
        ["qemu-aarch64", "-plugin", "./atomics.so", "-d", "plugin", "-D", "log", "./loop"], cwd=tmp_path, check=False
    )
    assert ran.returncode == 0
    lines = (tmp_path / "log").read_text().splitlines()
    seen = {line.split()[3]: int(line.split()[4]) for line in lines if line.split()[2] == "program"}
    assert {name: count for name, count in seen.items() if count} == {
        "ldxr": 10, "stxr": 10, "cas": 10, "swp": 10, "ldadd": 10, "instructions": 2 + 10 * 9 + 1 + 3,
    }  # fmt: skip


def test_a_cpu_on_which_a_server_does_not_run_is_named_and_the_others_are_shown(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from octavo.cli.choices import TableFormat

    del kept

    def measure(image: Image, cpu: str, *_: object) -> list[atomics.Atomics]:
        if cpu == "cortex-a72":
            raise OctavoError("pgbench failed in the machine (exit 1): Illegal instruction")
        counts = dict.fromkeys((*atomics.EXCLUSIVE, *atomics.LSE, atomics.INSTRUCTIONS), 0.0) | {"cas": 14.5}
        return [atomics.Atomics(cpu, "postgres (PostgreSQL) 18.6", "select-only", counts)]

    monkeypatch.setattr(atomics, "measure", measure)
    with Journal() as journal:
        made(journal, "vm-aarch64-4kB-a", "4kB", "2026-01-01T00:00:00Z")
    for form in (TableFormat.text, TableFormat.json):
        with pytest.raises(typer.Exit):
            cli.count_atomics("max,cortex-a72", None, 10, form)
    text, _, listed = capsys.readouterr().out.partition("[")
    assert "cas 14.5" in text
    assert text.splitlines()[-1].split("  ")[-1] == "pgbench failed in the machine (exit 1): Illegal instruction"
    assert [row.get("problem", row.get("lse")) for row in json.loads(f"[{listed}")] == [
        14.5, "pgbench failed in the machine (exit 1): Illegal instruction",
    ]  # fmt: skip


def test_a_program_that_the_cpu_cannot_execute_is_named_by_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "running bootstrap script ... child process was terminated by signal 4: Illegal instruction\n"
        'initdb: removing contents of data directory "/scratch/cluster"\n'
    )
    monkeypatch.setattr(atomics, "check_qemu", lambda journal: None)  # pyright: ignore
    monkeypatch.setattr(atomics, "run", lambda *_, **__: output.Outcome(said, 1))  # pyright: ignore
    with pytest.raises(OctavoError, match=r"\(exit 1\): .*terminated by signal 4: Illegal instruction$"):
        atomics.measure(Image("vm-x", Path("/"), {}, 0.0), "cortex-a72", None, 10)  # type: ignore[arg-type]
