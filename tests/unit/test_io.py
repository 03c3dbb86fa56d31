"""`octavo io` without a server: policies, files, the engine's errors, and the output."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from octavo.cli.app import app
from octavo.cli.output import console
from octavo.errors import HostError, OctavoError, UsageError
from octavo.io.engine import Observe, UnsupportedPolicyError, is_own, make, measure
from octavo.io.job import Job
from octavo.io.policies import POLICIES, Policy, find_policies
from octavo.io.render import as_thread, print_table
from octavo.io.request import SweepRequest, sweep_of
from octavo.io.sweep import RefusedError, Sweep, run_sweep
from octavo.io.target import allocated_share, prepare, with_segments

BLOCK = 4096
BLOCKS = 64


def unseen(phase: str, done: float, total: int) -> None:
    """Ignores progress."""


def begin(policy: Policy, job: Job) -> Observe:
    return unseen


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that octavo io made."""
    path = tmp_path / "own"
    make(path, BLOCKS * BLOCK, unseen)
    return path


def job(file: Path) -> Job:
    return Job((str(file),), BLOCK, "random", cache="found", once=True)


def sweep(job: Job, *policies: str, caches: tuple[str, ...] = ("found",)) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    run_sweep(Sweep(job, find_policies(policies), caches, 4 * BLOCK), begin, {}, results)
    return results


def test_all_stands_for_every_policy() -> None:
    assert find_policies(["all"]) == list(POLICIES.values())
    assert [policy.name for policy in find_policies(["run,single", "run"])] == ["run", "single"]
    with pytest.raises(UsageError, match=r"'runs' is not a policy; choose from single, .*, or all"):
        find_policies(["runs"])


def test_every_policy_delivers_every_block_once_and_is_checked(file: Path) -> None:
    results = sweep(replace(job(file), verify=True, run=4), "all", caches=("cold", "warm"))
    assert [(result["policy"], result["cache"]) for result in results] == [
        (policy, cache) for cache in ("cold", "warm") for policy in POLICIES
    ]
    for result in results:
        if result["status"] == "skipped":
            assert "io_uring" in result["reason"]
            continue
        assert result["blocks"] == BLOCKS, result
        assert result["blocks_per_second"] * result["seconds"] == pytest.approx(BLOCKS)
        assert result["bytes_per_request"] * result["requests"] == pytest.approx(result["bytes"])
        assert result["cpu_seconds_per_request"] > 0
        latency = result["latency_us"]
        assert 0 < latency["min"] <= latency["p50"] <= latency["p99"] <= latency["p99_9"] <= latency["max"]


def test_requests_are_as_large_as_the_policy_says(file: Path) -> None:
    sizes = {
        result["policy"]: result["bytes_per_request"]
        for result in sweep(replace(job(file), pattern="sequential", run=8), "single,run,coalesced,preadv")
    }
    assert sizes == {"single": BLOCK, "run": 8 * BLOCK, "coalesced": 4 * BLOCK, "preadv": 4 * BLOCK}


@given(st.lists(st.integers(0, BLOCKS - 1), min_size=1, unique=True).map(sorted), st.integers(0, 5))
def test_a_block_list_is_visited_as_it_stands(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[int], hole: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "listed"
    if not path.exists():
        make(path, BLOCKS * BLOCK, unseen)
    listed = replace(job(path), pattern="list", block_list="\n".join(map(str, blocks)), hole=hole)
    single, joined = sweep(listed, "single,coalesced")
    assert single["requests"] == single["blocks"] == joined["blocks"] == len(blocks)
    assert joined["requests"] <= single["requests"]
    assert len(blocks) * BLOCK <= joined["bytes"] <= (blocks[-1] - blocks[0] + 1) * BLOCK


def test_a_file_with_holes_is_said(file: Path, tmp_path: Path) -> None:
    holes = tmp_path / "holes"
    with holes.open("wb") as opened:
        opened.truncate(BLOCKS * BLOCK)
    assert allocated_share([file, Path("/dev/null")]) == 1.0
    assert allocated_share([holes]) < 0.1
    (whole,), (hollow,) = sweep(job(file), "single"), sweep(job(holes), "single")
    assert not any("holes" in note for note in whole["notes"])
    assert any("of the files is allocated: holes" in note for note in hollow["notes"])


@pytest.mark.parametrize(("cache", "said"), [("cold", True), ("found", False)])
def test_a_file_that_was_never_written_is_said(
    file: Path, monkeypatch: pytest.MonkeyPatch, cache: str, said: bool
) -> None:
    """As fallocate(1) makes it: all of it is allocated, and the kernel returns zeros without the device."""
    unwritten = SimpleNamespace(
        requests=8, blocks=8, bytes=8 * BLOCK, file_bytes=8 * BLOCK, cached_bytes=0, seconds=1.0, cpu_seconds=0.1,
        laps=1, device=(1, BLOCK, 0, 0), latency=Mock(return_value=1e-6), latency_mean=lambda: 1e-6,
    )  # fmt: skip
    monkeypatch.setattr("octavo.io.sweep.measure", Mock(return_value=unwritten))
    (result,) = sweep(job(file), "single", caches=(cache,))
    assert any("the device's counters show only 12% of what was read" in note for note in result["notes"]) == said


def test_what_a_policy_cannot_do_is_skipped_among_others_and_refused_alone(file: Path) -> None:
    writing = replace(job(file), write=True)
    written, skipped = sweep(writing, "single,fadvise")
    assert (written["status"], skipped["status"]) == ("ok", "skipped")
    assert "fadvise only reads" in skipped["reason"]
    with pytest.raises(RefusedError, match="fadvise"):
        sweep(writing, "fadvise")
    with pytest.raises(RefusedError, match="--direct"):
        sweep(replace(job(file), direct=True), "cache-first")


def test_what_the_engine_refuses_of_one_policy_leaves_the_others(file: Path) -> None:
    small = Sweep(replace(job(file), block=512), find_policies(["single,preadv"]), ("found",), 2048 * 512)
    results: list[dict[str, Any]] = []
    run_sweep(small, begin, {}, results)
    assert [result["status"] for result in results] == ["ok", "skipped"]
    assert "at most 1024 blocks per request" in results[1]["reason"]
    with pytest.raises(UsageError, match="no such file"):
        sweep(job(file.with_name("none")), "single,preadv")


def test_writing_fills_no_holes_and_can_be_checked(file: Path) -> None:
    (result,) = sweep(replace(job(file), write=True, hole=3, pattern="strided", stride=2), "coalesced")
    assert result["bytes"] == BLOCKS // 2 * BLOCK
    assert result["sync_seconds"] > 0
    assert sweep(replace(job(file), verify=True), "single")[0]["blocks"] == BLOCKS
    assert is_own(file)


@pytest.mark.parametrize(("write", "did"), [(True, "written"), (False, "read")])
def test_a_file_that_is_gone_over_again_is_said(file: Path, write: bool, did: str) -> None:
    (result,) = sweep(replace(job(file), write=write, once=False, blocks=2 * BLOCKS), "single", caches=("cold",))
    assert f"the files were {did} 2 times, cold each time; use a larger file" in result["notes"]


def test_a_file_that_was_gone_over_again_and_is_cached_was_not_cold(file: Path) -> None:
    """More threads than runs: those without one leave their share of the limit to another lap."""
    (result,) = sweep(replace(job(file), once=False, blocks=2 * BLOCKS, run=BLOCKS, threads=2), "single")
    assert result["laps"] > 1
    assert result["notes"] == []


def test_a_wrong_byte_is_found(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(9 * BLOCK + 100)
        opened.write(b"?")
    with pytest.raises(OctavoError, match=f"at byte {9 * BLOCK} is not what octavo io wrote") as caught:
        measure(replace(job(file), verify=True), unseen)
    assert caught.value.exit_code == 1


def test_what_the_observer_raises_ends_the_measurement(file: Path) -> None:
    def interrupt(phase: str, done: float, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(replace(job(file), once=False, seconds=600), interrupt)


@pytest.mark.parametrize("method", ["plain", "vectored", "ring"])
def test_a_file_that_shrinks_is_told(file: Path, method: str) -> None:
    def shrink(phase: str, done: float, total: int) -> None:
        os.truncate(file, 2 * BLOCK)

    try:
        with pytest.raises(HostError, match=f"truncated from {BLOCKS * BLOCK} to {2 * BLOCK} bytes"):
            measure(replace(job(file), once=False, seconds=600, method=method), shrink)
    except UnsupportedPolicyError as error:
        pytest.skip(str(error))


# As nobody, if it is root, who has no limit on processes. The file is open already: its directory may be another's.
LIMITED = """
import os, resource, sys
from octavo._core import io_run
from octavo.errors import HostError
from octavo.io.engine import UnsupportedPolicyError, measure
from octavo.io.job import Job

limit, method, descriptor = sys.argv[1:]
job = Job((f"/proc/self/fd/{descriptor}",), 4096, "random", method=method, threads=64, cache="found", once=True)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
resource.setrlimit(getattr(resource, limit), (24, 24))
try:
    measure(job, lambda *_: None)
except UnsupportedPolicyError:
    print("no io_uring")
except HostError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("limit", "method", "said"),
    [
        ("RLIMIT_NPROC", "plain", "start 64 threads: Resource temporarily unavailable; use fewer --threads"),
        ("RLIMIT_NOFILE", "ring", "io_uring_setup: Too many open files; use fewer --threads"),
    ],
)
def test_more_threads_than_a_limit_allows_are_refused(file: Path, limit: str, method: str, said: str) -> None:
    """Those that were started do not wait for the others."""
    file.chmod(0o644)
    with file.open("rb") as opened:
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, limit, method, str(opened.fileno())],
            pass_fds=(opened.fileno(),), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    if done.stdout == "no io_uring\n":
        pytest.skip("this kernel has no io_uring, or forbids it here")
    assert said in done.stdout, done.stderr


def test_an_error_keeps_what_was_measured_before(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(job: Job, observe: Observe) -> Any:
        if job.joining == "run":
            raise HostError("the device is gone")
        return measure(job, observe)

    monkeypatch.setattr("octavo.io.sweep.measure", measured)
    ran = CliRunner().invoke(app, ["io", str(file), "--block", "4kB", "--cache", "found", "--blocks", "8",
                                   "--policy", "single,run", "--format", "json"])  # fmt: skip
    assert isinstance(ran.exception, HostError)
    assert [result["policy"] for result in json.loads(ran.stdout)["results"]] == ["single"]


def test_a_file_that_may_not_be_read(file: Path) -> None:
    file.chmod(0)
    user = os.geteuid()
    os.seteuid(user or 65534)  # root may read everything
    try:
        with pytest.raises(HostError, match="Permission denied; name a file that this user may open"):
            measure(job(file), unseen)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 2**64), ("run", -1), ("stride", 10**30), ("depth", 2**40), ("blocks", 10**30)]
)
def test_numbers_that_no_integer_of_the_engine_holds_are_refused(file: Path, name: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"{name} must be from 0 to [0-9]+, not {value}"):
        measure(replace(job(file), **{name: value}), unseen)


def test_a_file_that_exists_is_not_made_again(file: Path) -> None:
    with pytest.raises(UsageError, match="exists; --make only makes new files: name another one, or omit --make"):
        make(file, BLOCK, unseen)


def test_no_room_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="make room, or make a smaller file"):
        make(tmp_path / "large", 2**60, unseen)
    assert list(tmp_path.iterdir()) == []


def test_segments_are_found_up_to_an_empty_one(tmp_path: Path) -> None:
    for name, content in (("16384", "x"), ("16384.1", "x"), ("16384.2", ""), ("16384.3", "x")):
        (tmp_path / name).write_text(content)
    assert with_segments(tmp_path / "16384") == [tmp_path / "16384", tmp_path / "16384.1"]


def test_only_files_of_its_own_are_written_or_checked(tmp_path: Path, file: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"x" * BLOCK)
    for write in (True, False):
        with pytest.raises(UsageError, match=r"octavo io .* files that it made"):
            prepare([foreign], None, unseen, write=write, verify=not write, lose_device=False)
    assert prepare([file], None, unseen, write=True, verify=True, lose_device=False) == (str(file),)
    with pytest.raises(UsageError, match="only makes new files"):
        prepare([file], BLOCK, unseen, write=False, verify=False, lose_device=False)


# The values of the command line without options.
NOTHING_SAID = SweepRequest(
    files=(), segments=False, make=None, lose_device=False, pattern="random", block=None, run=None, stride=None, seed=1,
    block_list=None, from_query=None, dsn="", policies=("single",), max_request=None, hole=0, distance=32, depth=32,
    threads=1, cache="cold", direct=False, readahead="normal", write=False, verify=False, seconds=None, blocks=None,
    bytes=None,
)  # fmt: skip


def request(*files: Path, **given: Any) -> SweepRequest:
    return replace(NOTHING_SAID, files=files, **given)


def test_a_request_is_completed(file: Path) -> None:
    plain, _ = sweep_of(request(file), unseen)
    assert (plain.job.block, plain.job.run, plain.job.seconds, plain.max_request) == (8192, 1, 5.0, 128 * 1024)
    assert plain.caches == ("cold",)
    runs, _ = sweep_of(request(file, pattern="runs", block="4kB", bytes="64kB", blocks=99, cache="both"), unseen)
    assert (runs.job.pattern, runs.job.run, runs.job.blocks, runs.job.seconds) == ("random", 16, 16, None)
    assert runs.caches == ("cold", "warm")
    large, _ = sweep_of(request(file, block="256kB"), unseen)
    assert large.max_request == 256 * 1024
    assert [made.most for _, made in sweep_of(request(file, policies=("run,coalesced",)), unseen)[0].jobs()] == [
        4096,
        16,
    ]


def test_a_list_is_measured_once_unless_a_limit_is_given(file: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list"
    listed.write_text("0-3\n9\n")
    sweep, _ = sweep_of(request(file, block_list=listed, block="4kB"), unseen)
    assert (sweep.job.pattern, sweep.job.once, sweep.job.seconds) == ("list", True, None)
    timed, _ = sweep_of(request(file, block_list=listed, block="4kB", seconds=1.0), unseen)
    assert (timed.job.once, timed.job.seconds) == (False, 1.0)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"pattern": "list"}, UsageError, "--block-list FILE"),
        ({"block": "0kB"}, UsageError, "such as 8kB"),
        ({"block": "8"}, UsageError, "is not a size"),
        ({"max_request": "4kB"}, UsageError, "is smaller than a block of 8kB"),
        ({"policies": ("fast",)}, UsageError, "is not a policy"),
        ({"block_list": Path("/no/such/list")}, UsageError, "readable block list"),
    ],
)
def test_a_request_that_makes_no_sense(file: Path, given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        sweep_of(request(file, **given), unseen)
    with pytest.raises(UsageError, match="no file given"):
        sweep_of(request(), unseen)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bytes": "1 apple"}, "--bytes"),
        ({"max_request": "4kB"}, "smaller"),
        ({"block": "1000B"}, "--block 1000B is not a multiple of 512B"),
    ],
)
def test_no_file_is_made_for_a_request_that_makes_no_sense(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        sweep_of(request(tmp_path / "new", make="1MB", **given), unseen)
    assert not (tmp_path / "new").exists()
    assert sweep_of(request(tmp_path / "new", make="1MB"), unseen)[0].job.paths == (str(tmp_path / "new"),)


def document(job: Job, *policies: str) -> dict[str, Any]:
    return run_sweep(Sweep(job, find_policies(policies), ("cold",), 4 * BLOCK), begin, {}, [])


def test_the_threads_layout(file: Path) -> None:
    lines = as_thread(document(replace(job(file), run=4), "run")).splitlines()
    assert lines[0] == "# RANDOM RUNS OF 4 I/O 4kB blocksize, run, cold"
    assert lines[1] == f"Added {file}"
    assert lines[2] == f"blocksize={BLOCK}, {4 * BLOCK} bytes a request"
    assert lines[4] == f"Read {BLOCKS} blocks Wrote 0 blocks"
    assert lines[5].endswith("kB/sec")
    assert lines[7].split() == ["octavo", "R", str(BLOCKS * BLOCK), str(BLOCKS // 4), str(4 * BLOCK)]


def test_the_table_names_policies_and_what_was_skipped(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(document(replace(job(file), write=True), "single,preadv"), console())
    out = capsys.readouterr().out
    assert "writing blocks of 4kB, random" in out
    assert "cold: not in the page cache before" in out
    assert "preadv, cold: skipped: preadv only reads" in out
    assert "…" not in out
