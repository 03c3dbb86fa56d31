"""Allocating pages and giving them back, with a planted kernel that has at most a given number."""

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from tests.unit.planted import plant
from tests.unit.test_hugepages import MB, meminfo, pool_files

from octavo.errors import HostError
from octavo.host import trusted_paths
from octavo.host.journal import recover
from octavo.host.kernel_value import KernelValue
from octavo.hugepages import apply as pool
from octavo.hugepages.pool import pool_file, read_pool

PAGE = 2 * MB


class Kernel:
    """A tree with a realistic pool: it has at most `most` pages, and the free ones are updated."""

    def __init__(self, root: Path) -> None:
        self.root, self.most = root, 1000
        self.file = pool_file(PAGE, root / "sys")
        self.write_file = KernelValue.write

    def write(self, value: KernelValue, text: str) -> None:
        before = read_pool(PAGE, self.root / "sys")
        asked = min(int(text), self.most)
        given = max(asked, before.in_use)
        self.write_file(value, str(given))
        (self.file.parent / "free_hugepages").write_text(str(before.free + given - before.total))
        (self.file.parent / "surplus_hugepages").write_text(str(given - asked))

    def use(self, pages: int) -> None:
        """Another process uses pages."""
        free = self.file.parent / "free_hugepages"
        free.write_text(str(int(free.read_text()) - pages))

    @property
    def total(self) -> int:
        return int(self.file.read_text())


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    buddies = "Node 0, zone   Normal " + " ".join(["8"] * 9 + ["3", "2"]) + "\n"
    root = plant(tmp_path / "root", pool_files(PAGE, 10, 4) | meminfo() | {"proc/buddyinfo": buddies})
    planted = Kernel(root)
    monkeypatch.setattr(pool, "host_lock", nullcontext)

    def write(value: KernelValue, text: str) -> None:
        planted.write(value, text)

    monkeypatch.setattr(KernelValue, "write", write)
    yield planted
    assert not list((tmp_path / "home" / "journal").glob("*.jsonl"))


def test_what_is_needed_comes_on_top_of_what_is_in_use(kernel: Kernel) -> None:
    done = pool.apply(PAGE, 20, 0, kernel.root)
    assert (done["asked_pages"], done["given_pages"], kernel.total) == (16, 16, 26)
    assert (done["before"]["free"], done["after"]["free"]) == (4, 20)
    assert pool.apply(PAGE, 20, 0, kernel.root)["asked_pages"] == 0
    (told,) = pool.undo()
    assert told.what == "put back"
    assert kernel.total == 10
    assert pool.undo() == []


def test_a_later_command_does_not_put_it_back_by_itself(kernel: Kernel) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    assert recover() == []
    assert kernel.total == 26
    pool.undo()


def test_pages_that_came_before_the_lock_are_not_taken_back(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server's pool is enlarged between our first look and the lock."""

    @contextmanager
    def host_lock() -> Generator[None, None, None]:
        kernel.write(KernelValue(kernel.file), "110")
        yield

    monkeypatch.setattr(pool, "host_lock", host_lock)
    done = pool.apply(PAGE, 20, 0, kernel.root)
    assert (done["asked_pages"], done["given_pages"], kernel.total) == (0, 0, 110)
    assert pool.kept() == []


def test_two_applied_are_undone_in_turn(kernel: Kernel) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    pool.apply(PAGE, 30, 0, kernel.root)
    assert kernel.total == 36
    assert [told.what for told in pool.undo()] == ["put back", "put back"]
    assert kernel.total == 10


def test_fewer_pages_are_an_error_that_counts_them_and_gives_them_back(kernel: Kernel) -> None:
    kernel.most = 17
    with pytest.raises(HostError, match=r"requested 16 more huge pages of 2 MB, got 7.*compact_memory") as error:
        pool.apply(PAGE, 20, 0, kernel.root)
    assert "7 free blocks of that size" in str(error.value)  # 3 of the page's size and 2 of twice that
    assert kernel.total == 10
    assert pool.kept() == []


def test_pages_that_somebody_took_meanwhile_are_not_called_returned(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel.most = 17

    def why_fewer(*_: object) -> str:
        kernel.use(11)  # all that are free
        return "no memory"

    monkeypatch.setattr(pool, "_why_fewer", why_fewer)
    with pytest.raises(HostError, match="got 7 and could return only 0: no memory"):
        pool.apply(PAGE, 20, 0, kernel.root)
    assert kernel.total == 17
    kernel.use(-11)
    assert len(recover()) == 1
    assert kernel.total == 10


def test_a_pool_that_somebody_changed_since_is_left(kernel: Kernel) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    kernel.write(KernelValue(kernel.file), "40")
    (told,) = pool.undo()
    assert told.what == "left"
    assert "changed by others" in told.line
    assert kernel.total == 40
    assert pool.undo() == []


def test_pages_in_use_are_not_taken_away(kernel: Kernel) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    kernel.use(20)
    (told,) = pool.undo()
    assert told.what == "failed"
    assert "26 of the 26 pages of 2 MB are in use, 10 would stay; stop the server" in told.line
    assert kernel.total == 26
    kernel.use(-20)
    assert pool.undo()[0].what == "put back"


def test_more_than_the_memory_is_not_even_tried(kernel: Kernel) -> None:
    with pytest.raises(HostError, match=r"191 GB more in huge pages are needed and 7.47 GB of memory can be taken"):
        pool.apply(PAGE, 98000, 0, kernel.root)
    assert kernel.total == 10


@pytest.mark.parametrize(("committed", "refused"), [(980_000, False), (990_000, True)])
def test_a_pool_that_lowers_the_commit_limit_below_what_is_committed_is_refused(
    kernel: Kernel, committed: int, refused: bool
) -> None:
    """Under vm.overcommit_memory = 2 every allocation on the machine would fail."""
    strict = {"proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/overcommit_ratio": "50\n"}
    plant(kernel.root, strict | meminfo(CommitLimit=1_000_000, Committed_AS=committed))
    with (
        pytest.raises(HostError, match=r"lowers CommitLimit.*raise vm\.overcommit_ratio") if refused else nullcontext()
    ):
        pool.apply(PAGE, 20, 0, kernel.root)
    assert kernel.total == (10 if refused else 26)


def test_a_boot_has_put_it_back(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    kernel.write(KernelValue(kernel.file), "0")
    record = Path(os.environ["OCTAVO_HOME"]) / "huge_pages.json"
    record.write_text(record.read_text().replace(json.loads(record.read_text())["applied"][0]["boot_id"], "before"))
    assert pool.undo() == []
    assert not record.exists()


def test_killed_before_it_was_whole_the_next_command_puts_it_back(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(pool, "_keep", die)
    with pytest.raises(Killed):
        pool.apply(PAGE, 20, 0, kernel.root)
    assert kernel.total == 10  # the end of the journal does what recover() does after a kill -9


def test_pieces_are_counted_only_where_the_kernel_lists_them(kernel: Kernel) -> None:
    assert pool.free_blocks(PAGE, kernel.root) == 7
    assert pool.free_blocks(1024 * MB, kernel.root) is None


def test_of_two_applied_the_one_that_is_free_is_undone_and_told(kernel: Kernel) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    kernel.use(20)
    pool.apply(PAGE, 30, 0, kernel.root)
    assert kernel.total == 56
    assert [told.what for told in pool.undo()] == ["put back", "failed"]
    assert kernel.total == 26
    kernel.use(-20)
    assert [told.what for told in pool.undo()] == ["put back"]
    assert kernel.total == 10


def test_surplus_pages_of_others_do_not_look_like_a_change_of_the_pool(kernel: Kernel) -> None:
    pool.apply(PAGE, 20, 0, kernel.root)
    for name, number in (("nr", 30), ("free", 0), ("surplus", 4)):  # overcommitted by four, all in use
        (kernel.file.parent / f"{name}_hugepages").write_text(str(number))
    assert [told.what for told in pool.undo()] == ["failed"]
    for name, number in (("nr", 26), ("free", 20), ("surplus", 0)):
        (kernel.file.parent / f"{name}_hugepages").write_text(str(number))
    assert [told.what for told in pool.undo()] == ["put back"]
    assert kernel.total == 10


def test_surplus_pages_that_were_there_before_do_not_keep_ours(kernel: Kernel) -> None:
    """14 pages in use, 4 of them surplus: resetting to 10 leaves the original state."""
    for name, number in (("nr", 14), ("free", 0), ("surplus", 4)):
        (kernel.file.parent / f"{name}_hugepages").write_text(str(number))
    kernel.most = 20
    with pytest.raises(HostError, match="and returned them"):
        pool.apply(PAGE, 20, 0, kernel.root)
    assert (kernel.total, read_pool(PAGE, kernel.root / "sys").surplus) == (14, 4)
    kernel.most = 1000
    assert pool.apply(PAGE, 20, 0, kernel.root)["surplus_kept_pages"] == 4
    assert [told.what for told in pool.undo()] == ["put back"]
    assert (kernel.total, read_pool(PAGE, kernel.root / "sys").surplus) == (14, 4)


class KilledError(BaseException):
    """kill -9: no process of ours runs any more."""


def test_killed_and_used_since_no_later_command_takes_the_pages(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        kernel.use(24)  # a server used the existing ones
        raise KilledError

    monkeypatch.setattr(pool, "_keep", die)
    with pytest.raises(KilledError):
        pool.apply(PAGE, 20, 0, kernel.root)
    assert kernel.total == 26
    (told,) = recover()
    assert "in use, 10 would stay" in told and "octavo host restore" in told
    assert kernel.total == 26
    kernel.use(-24)
    assert len(recover()) == 1
    assert kernel.total == 10


def test_killed_after_it_was_kept_the_pool_stays(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr(pool.Journal, "done", die)
    with pytest.raises(KilledError):
        pool.apply(PAGE, 20, 0, kernel.root)
    monkeypatch.undo()
    monkeypatch.setattr(trusted_paths, "KERNEL_ROOTS", (kernel.root,))
    monkeypatch.setenv("OCTAVO_HOME", str(kernel.root.parent / "home"))
    assert recover() == []
    assert kernel.total == 26


def test_a_record_of_another_file_is_not_followed(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whoever can write to the home that root was given."""
    pool.apply(PAGE, 20, 0, kernel.root)
    record = Path(os.environ["OCTAVO_HOME"]) / "huge_pages.json"
    monkeypatch.setattr(trusted_paths, "KERNEL_ROOTS", (tmp_path / "elsewhere",))
    with pytest.raises(HostError, match="is not a kernel file"):
        pool.undo()
    assert kernel.total == 26
    record.unlink()


def test_a_damaged_record_is_said_before_anything_is_changed(kernel: Kernel) -> None:
    (Path(os.environ["OCTAVO_HOME"]) / "huge_pages.json").write_text("{")
    for command in (lambda: pool.apply(PAGE, 20, 0, kernel.root), pool.undo):
        with pytest.raises(HostError, match=r"damaged .*remove it"):
            command()
    assert kernel.total == 10
