"""The instrument `requests`: the device at which it counts, whether that device issues requests itself, and roles; and
what its counter needs of the kernel."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from octavo.instruments import bpf, requests, system_calls
from octavo.instruments.base import Reader, UnavailableError
from octavo.instruments.figures import Reading
from octavo.instruments.request_counter import RequestCounter, Requests
from octavo.instruments.requests import volume_under
from octavo.instruments.target import Target


def plant(sys: Path, data: Path, name: str, *, queue: bool) -> None:
    """A device under the data directory."""
    number = data.stat().st_dev
    device = sys / "devices" / name
    (device / "mq" if queue else device).mkdir(parents=True)
    (device / "dev").write_text("253:1\n")
    link = sys / f"dev/block/{os.major(number)}:{os.minor(number)}"
    link.parent.mkdir(parents=True)
    link.symlink_to(device)


@pytest.mark.parametrize(("name", "queue"), [("vda", True), ("dm-1", False), ("md0", False)])
def test_a_volume_without_a_queue_is_counted_by_what_is_submitted(tmp_path: Path, name: str, queue: bool) -> None:
    plant(tmp_path, tmp_path, name, queue=queue)
    assert volume_under(tmp_path, tmp_path) == (253 << 20 | 1, not queue)


def test_a_filesystem_without_a_device_has_none(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no block device of its own"):
        volume_under(tmp_path, tmp_path)


class SomeRequests:
    """A counter of requests of a checkpointer, of a backend and of an idle CPU, of no requests, and of the backend's
    pid."""

    def __init__(self, device: int, *, submitted: bool) -> None:
        del device, submitted
        backend = Requests(1, 12, 8192, "R", 5)
        self._taken = iter([[Requests(1, 11, 8192, "W", 3), backend, Requests(1, 0, 8192, "R", 1)], [], [backend]])

    def take(self) -> list[Requests]:
        return next(self._taken)

    def lost(self) -> int:
        """Had room for all."""
        return 0

    def close(self) -> None:
        """Has nothing open."""


@pytest.mark.parametrize("cluster", ["", "18/main"])
def test_a_cluster_name_does_not_hide_the_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
    """Debian sets cluster_name, which every process then has before its role."""
    reader = requests_of(tmp_path, monkeypatch, cluster)
    assert roles_in(reader.read()) == {"checkpointer", "client backend", "kernel"}


def test_a_pid_that_passed_to_another_program_is_not_the_backend_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = requests_of(tmp_path, monkeypatch)
    reader.read()
    reader.read()
    (tmp_path / "12/stat").write_text(f"12 (tar) S 1 {' '.join(['0'] * 48)}\n")
    found = reader.read()
    assert (found["client backend"]["reads"], found["other programs"]["reads"]) == (5, 5)


def requests_of(proc: Path, monkeypatch: pytest.MonkeyPatch, cluster: str = "") -> Reader:
    """The instrument on a server with a checkpointer (11) and a backend (12), and a counter of their requests."""

    def volume(_: Path) -> tuple[int, bool]:
        return 1, False

    monkeypatch.setattr(requests, "RequestCounter", SomeRequests)
    monkeypatch.setattr(requests, "volume_under", volume)
    before = f"{cluster}: " if cluster else ""
    for pid, title in ((11, "checkpointer "), (12, "app shop [local] idle")):
        (proc / str(pid)).mkdir()
        (proc / f"{pid}/stat").write_text(f"{pid} (postgres) S 10 {' '.join(['0'] * 48)}\n")
        (proc / f"{pid}/cmdline").write_text(f"postgres: {before}{title}")
    return requests.INSTRUMENT.open(Target(lambda name: [{name: cluster}], 180000, proc, 10, None, proc=proc))


def roles_in(found: Reading) -> set[str]:
    return {item for item in found if item and "kB" not in item}


def test_a_kernel_without_batches_is_refused_before_anything_is_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux before 5.6. Locked memory, as which maps count before 5.11, has no limit meanwhile, if root may lift it."""
    opened: list[int] = []
    limits: list[int] = []

    @contextmanager
    def tracefs() -> Generator[Path]:
        yield tmp_path

    def create_map(*_: int) -> int:
        limits.append(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0])
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[-1]

    def take(_: bpf.Taker) -> None:
        raise OSError(22, "no batches")

    monkeypatch.setattr(system_calls, "tracefs", tracefs)
    monkeypatch.setattr(bpf, "create_map", create_map)
    monkeypatch.setattr(bpf.Taker, "take", take)
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        lifted = resource.RLIM_INFINITY
    except (OSError, ValueError):
        lifted = before[0]
    resource.setrlimit(resource.RLIMIT_MEMLOCK, before)
    with pytest.raises(OSError, match="no batches"):
        RequestCounter(1)
    assert set(limits) == {lifted}
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before
    assert not any(Path(f"/proc/self/fd/{descriptor}").exists() for descriptor in opened)
