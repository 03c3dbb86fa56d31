"""`octavo io` as a user runs it: its output, exit codes, Ctrl-C, and a kernel that refuses io_uring."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT, Octavo

SIZE = 8 * 1024**2


@pytest.fixture
def file(octavo: Octavo, tmp_path: Path) -> Path:
    path = tmp_path / "own"
    finished = octavo("io", path, "--make", "8MB", "--blocks", "1")
    assert finished.returncode == 0, finished.stderr
    assert path.stat().st_size == SIZE
    return path


def test_json_holds_what_programs_rely_on(octavo: Octavo, file: Path) -> None:
    finished = octavo("io", file, "--pattern", "random", "--block", "8kB", "--seconds", "0.3", "--format", "json")
    assert finished.returncode == 0, finished.stderr
    document = json.loads(finished.stdout)
    assert document["schema_version"] == 1
    assert document["files"] == [{"path": str(file), "bytes": SIZE}]
    (result,) = document["results"]
    assert (result["policy"], result["cache"], result["bytes_per_request"]) == ("single", "cold", 8192)
    assert result["requests_per_second"] == result["blocks_per_second"] == result["requests"] / result["seconds"]
    assert result["cpu_seconds_per_request"] > 0
    assert result["latency_us"]["p50"] <= result["latency_us"]["p99"]


def test_cold_and_warm_are_apart_for_every_policy(octavo: Octavo, file: Path) -> None:
    finished = octavo(
        "io", file, "--policy", "all", "--pattern", "runs", "--cache", "both", "--blocks", "500", "--verify"
    )
    assert finished.returncode == 0, finished.stderr
    cold, warm = finished.stdout.split("warm: in the page cache before")
    for policy in ("single", "run", "coalesced", "cache-first", "fadvise", "preadv"):
        assert f"\n{policy} " in cold, policy
        assert f"\n{policy} " in warm, policy


def test_what_was_written_is_checked(octavo: Octavo, file: Path) -> None:
    for arguments in (["--write", "--block", "4kB"], ["--verify", "--block", "32kB", "--pattern", "sequential"]):
        finished = octavo("io", file, *arguments, "--bytes", "8MB")
        assert finished.returncode == 0, finished.stderr
    with file.open("r+b") as opened:
        opened.seek(12345)
        opened.write(b"?")
    finished = octavo("io", file, "--verify", "--bytes", "8MB")
    assert finished.returncode == 1
    assert "at byte 12288 is not what octavo io wrote there" in finished.stderr.splitlines()[-1]
    assert finished.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "no file given"),
        (["/no/such"], 2, "no such file"),
        (["{tmp}"], 2, "is a directory"),
        (["/dev/null"], 2, "neither a file nor a block device"),
        (["{tmp}/empty"], 2, "is empty"),
        (["{tmp}/short"], 2, "less than one block of 8192"),
        (["{tmp}/short", "--block", "1000B"], 2, "not a multiple of 512"),
        (["{tmp}/short", "--block", "512B", "--write"], 2, "octavo io writes only into files that it made"),
        (["{tmp}/short", "--block", "512B", "--policy", "best"], 2, "is not a policy"),
        (["{tmp}/short", "--block", "512B", "--block-list", "{tmp}/short"], 2, "line 1 of the block list"),
        (["{tmp}/large", "--make", "900TB"], 3, "make room"),
        (["{tmp}/short", "--make", "8kB"], 2, "--make only makes new files"),
        (["{tmp}/short", "--seed", "99999999999999999999"], 2, "seed must be from 0 to"),
        (["{tmp}/none/file", "--make", "8kB"], 3, "name a directory that exists"),
        (["./probe"], 2, "probe: no such file"),
        (["probe"], 2, "takes one file or device"),
        (["{tmp}/short", "--depth", "8"], 2, "--depth has no effect without --policy io_uring"),
        (["{tmp}/short", "--hole", "2", "--policy", "run"], 2, "--hole has no effect without --policy coalesced"),
        (["{tmp}/short", "--stride", "8"], 2, "--stride has no effect without --pattern strided"),
        (["{tmp}/short", "--dsn", "dbname=x"], 2, "--dsn has no effect without --from-query"),
        (["{tmp}/short", "--direct", "--cache", "warm"], 2, "--cache has no effect with --direct"),
        (["{tmp}/short", "--block-list", "{tmp}/short", "--run", "4"], 2, "--run has no effect on a block list"),
        (["--block-list", "{tmp}/short", "--from-query", "SELECT 1"], 2, "both say which blocks"),
        (["{tmp}/short", "--run", "0"], 2, "see octavo io --help"),
        (["probe", "{tmp}/short", "--write"], 2, "octavo io writes only into files that it made"),
        (["probe", "/no/such"], 2, "no such file"),
        (["--from-query", "SELECT 1", "--dsn", "host=/no/such/directory"], 3, "set --dsn, or PGHOST"),
    ],
)
def test_a_mistake_is_one_line(octavo: Octavo, tmp_path: Path, arguments: list[str], code: int, said: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(b"x" * 600)
    finished = octavo("io", *(argument.format(tmp=tmp_path) for argument in arguments))
    assert finished.returncode == code, finished.stderr
    assert said in finished.stderr
    assert finished.stderr.count("\n") == 1
    assert finished.stdout == ""


def test_a_device_is_not_written_by_mistake(octavo: Octavo) -> None:
    devices = [path for path in Path("/dev").glob("*") if path.is_block_device()]
    if not devices:
        pytest.skip("no block device here")
    finished = octavo("io", devices[0], "--write")
    assert finished.returncode == 2
    assert "--i-will-lose-this-device" in finished.stderr


def test_ctrl_c_ends_it_and_keeps_what_was_measured(file: Path, home: Path) -> None:
    run = subprocess.Popen(
        [ROOT / "octavo", "io", file, "--policy", "single,run", "--cache", "found", "--seconds", "3", "--format",
         "json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("octavo io: run"):  # the first one is measured, the second one has begun
            run.send_signal(signal.SIGINT)
            break
    out, errors = run.communicate(timeout=300)
    assert run.returncode == 130
    assert errors == "octavo: interrupted\n"
    assert [result["policy"] for result in json.loads(out)["results"]] == ["single"]


# Executes the following program, in which io_uring_setup (425 on every architecture but Alpha: the kernel's
# scripts/syscall.tbl) fails with the first argument's error: a seccomp filter, as in containers (seccomp(2)).
_WITHOUT_IO_URING = """
import ctypes, os, struct, sys
load, jump_if_equal, give_back, allow, error = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
program = b"".join(struct.pack("HBBI", *step) for step in (
    (load, 0, 0, 0), (jump_if_equal, 0, 1, 425), (give_back, 0, 0, error | int(sys.argv[1])), (give_back, 0, 0, allow)
))
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 # PR_SET_NO_NEW_PRIVS
assert libc.prctl(22, 2, ctypes.byref(Program(4, program)), 0, 0) == 0 # PR_SET_SECCOMP
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.parametrize(("number", "said"), [(38, "Function not implemented"), (1, "Operation not permitted")])
def test_a_kernel_that_refuses_io_uring(file: Path, home: Path, number: int, said: str) -> None:
    def call(policies: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _WITHOUT_IO_URING, str(number), ROOT / "octavo", "io", file, "--blocks", "50",
             "--policy", policies, "--format", "json"],
            capture_output=True, text=True, check=False, env=dict(os.environ), timeout=300,
        )  # fmt: skip

    alone = call("io_uring")
    assert alone.returncode == 3
    assert alone.stderr.startswith(f"octavo: io_uring: {said}")
    assert alone.stderr.count("\n") == 1
    among_others = call("io_uring,single")
    assert among_others.returncode == 0
    skipped, measured = json.loads(among_others.stdout)["results"]
    assert (skipped["policy"], skipped["status"], measured["status"]) == ("io_uring", "skipped", "ok")
    assert said in skipped["reason"]
