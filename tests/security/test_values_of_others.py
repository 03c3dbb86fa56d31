"""A value that an administrator sets after us is kept, even if the kernel changes it when we restore our own value."""

import json
from pathlib import Path

import pytest

from octavo.host import kernel_value, trusted_paths
from octavo.host.journal import Journal, restore
from octavo.host.kernel_value import KernelValue, changed
from octavo.host.process import boot_id
from octavo.host.undo import Undone


class Queue:
    """Two files like a disk's: a write to the limit makes the kernel choose the readahead again."""

    def __init__(self, root: Path) -> None:
        self.limit, self.readahead = KernelValue(root / "limit"), KernelValue(root / "readahead")
        self.limit.path.write_text("1280")
        self.readahead.path.write_text("4096")

    @property
    def state(self) -> tuple[str, str]:
        return self.limit.read(), self.readahead.read()


@pytest.fixture
def queue(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue(tmp_path)
    write = KernelValue.write

    def move_both(self: KernelValue, text: str) -> None:
        write(self, text)
        if self.path == made.limit.path:
            made.readahead.path.write_text(str(2 * int(text)))

    monkeypatch.setattr(KernelValue, "write", move_both)
    monkeypatch.setattr(trusted_paths, "KERNEL_ROOTS", (tmp_path,))
    return made


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(("theirs", "after"), [(None, "4096"), ("333", "333")])
def test_a_value_that_the_kernel_moved(queue: Queue, killed: bool, theirs: str | None, after: str) -> None:
    told: list[Undone] = []
    with Journal(told.append) as journal, changed(queue.limit, "256", journal, moves=[queue.readahead]):
        assert queue.state == ("256", "512")
        if theirs is not None:
            queue.readahead.path.write_text(theirs)
        if killed:
            # What a kill would have left, replayed while this process, which then finds everything done, is still
            # running.
            journal.path.with_name("killed.jsonl").write_text(journal.path.read_text())
            told += restore()
            assert queue.state == ("1280", after)
            assert [one.what for one in told] == ["put back" if theirs is None else "left"]
            assert theirs is None or theirs in told[0].line
    assert queue.state == ("1280", after)


def test_where_the_value_itself_is_anothers_all_stays(queue: Queue) -> None:
    told: list[Undone] = []
    with Journal(told.append) as journal, changed(queue.limit, "256", journal, moves=[queue.readahead]):
        queue.limit.write("300")
    assert queue.state == ("300", "600")
    assert [one.what for one in told] == ["left"]


def test_an_earlier_versions_entry_that_took_any_value_for_ours(queue: Queue, own_home: Path) -> None:
    path = own_home / "journal" / "killed.jsonl"
    path.parent.mkdir(mode=0o700, parents=True)
    entry = {"number": 1, "kind": "value", "path": str(queue.readahead.path), "form": "plain", "device": "",
             "found": "128", "set": "128", "ours": "any", "boot_id": boot_id()}  # fmt: skip
    path.write_text(json.dumps(entry) + "\n")
    assert [one.what for one in restore()] == ["left"]
    assert queue.readahead.read() == "4096"


@pytest.mark.parametrize(
    ("now", "after", "what"), [((1, 2), "4096", "put back"), (None, "4096", "put back"), ((1, 3), "64", "left")]
)
def test_a_loop_device_that_another_image_has_by_now(
    tmp_path: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    now: tuple[int, int] | None,
    after: str,
    what: str,
) -> None:
    """A killed run's device was detached, and attached for another user, before its journal was replayed."""
    monkeypatch.setattr(trusted_paths, "KERNEL_ROOTS", (tmp_path,))
    on: list[tuple[int, int] | None] = [(1, 2)]

    def backing(_name: str) -> tuple[int, int] | None:
        return on[0]

    monkeypatch.setattr(kernel_value, "backing", backing)
    readahead = KernelValue(tmp_path / "block/loop3/queue/read_ahead_kb")
    readahead.path.parent.mkdir(parents=True)
    readahead.path.write_text("4096")
    with Journal() as journal, changed(readahead, "64", journal):
        journal.path.with_name("killed.jsonl").write_text(journal.path.read_text())
        on[0] = now
        assert [one.what for one in restore()] == [what]
        assert readahead.read() == after
        readahead.write("64")
        on[0] = (1, 2)
    assert readahead.read() == "4096", "at the end of the command itself"
