"""The instrument `requests`: the device at which it counts, whether that device issues requests itself, and roles; and
what its counter needs of the kernel."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from octavo.instruments import bpf, requests, system_calls
from octavo.instruments.base import UnavailableError
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
    """A counter that was told of requests of a checkpointer, of a backend, and of an idle CPU."""

    def __init__(self, device: int, *, submitted: bool) -> None:
        del device, submitted

    def take(self) -> list[Requests]:
        return [Requests(1, 11, 8192, "W", 3), Requests(1, 12, 8192, "R", 5), Requests(1, 0, 8192, "R", 1)]

    def lost(self) -> int:
        """Had room for all."""
        return 0

    def close(self) -> None:
        """Has nothing open."""


@pytest.mark.parametrize("cluster", ["", "18/main"])
def test_a_cluster_name_does_not_hide_the_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: str) -> None:
    """Debian sets cluster_name, which every process then has before its role."""

    def volume(_: Path) -> tuple[int, bool]:
        return 1, False

    monkeypatch.setattr(requests, "RequestCounter", SomeRequests)
    monkeypatch.setattr(requests, "volume_under", volume)
    before = f"{cluster}: " if cluster else ""
    for pid, parent, title in ((11, 10, "checkpointer "), (12, 10, "app shop [local] idle")):
        place = tmp_path / str(pid)
        place.mkdir()
        (place / "stat").write_text(f"{pid} (postgres) S {parent} {' '.join(['0'] * 48)}\n")
        (place / "cmdline").write_text(f"postgres: {before}{title}")
    target = Target(lambda name: [{name: cluster}], 180000, tmp_path, 10, None, proc=tmp_path)
    found = requests.INSTRUMENT.open(target).read()
    assert {item for item in found if item and "kB" not in item} == {"checkpointer", "client backend", "kernel"}


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
    lifted = resource.RLIM_INFINITY if os.geteuid() == 0 else before[0]
    with pytest.raises(OSError, match="no batches"):
        RequestCounter(1)
    assert set(limits) == {lifted}
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before
    assert not any(Path(f"/proc/self/fd/{descriptor}").exists() for descriptor in opened)
