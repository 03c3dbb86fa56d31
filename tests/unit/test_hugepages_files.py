"""Whether a server runs on a data directory, and how it was last started, from the files of its postmaster."""

import os
from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo.errors import UsageError
from octavo.hugepages.postmaster_files import last_options, refuse_running


def test_the_options_of_the_last_start_are_settings(tmp_path: Path) -> None:
    assert last_options(tmp_path) == []
    words = '"-D" "/data" "-c" "a=1" "--max-connections=7" "-p" "5433" "-B" "64" "--single" "-c" "b=x y"'
    (tmp_path / "postmaster.opts").write_text(f"/usr/bin/postgres {words}\n")
    found = last_options(tmp_path)
    assert found[::2] == ["-c"] * 4
    assert found[1::2] == ["a=1", "max_connections=7", "shared_buffers=64", "b=x y"]


def test_options_with_their_value_in_one_word_are_settings_too(tmp_path: Path) -> None:
    words = '"-D" "/data" "-cshared_buffers=4GB" "-B64" "-N100" "-p5433" "-c" "a=1"'
    (tmp_path / "postmaster.opts").write_text(f"/usr/bin/postgres {words}\n")
    assert last_options(tmp_path)[1::2] == ["shared_buffers=4GB", "shared_buffers=64", "max_connections=100", "a=1"]


def a_process(proc: Path, pid: int, name: str, parent: int, cwd: Path | None, user: int | None = None) -> None:
    mine = os.getuid() if user is None else user
    plant(proc, {f"{pid}/stat": f"{pid} ({name}) S {parent} " + " ".join(["0"] * 48) + "\n"})
    plant(proc, {f"{pid}/status": f"Name:\t{name}\nUid:\t{mine}\t{mine}\t{mine}\t{mine}\n"})
    if cwd is not None:
        (proc / str(pid) / "cwd").symlink_to(cwd)


@pytest.mark.parametrize(
    ("file", "processes", "words"),
    [
        (
            "7\n",
            {7: ("postgres", 1, "data"), 8: ("postgres", 7, "data")},
            r"a server \(pid 7\) runs on .*dbname=postgres",
        ),
        ("1\n", {7: ("postgres", 5, "data")}, r"a server \(pid 7\) runs"),  # 1 is its pid in its container
        ("7\n", {7: ("postgres", 1, None)}, r"a server \(pid 7\) runs"),  # its directory is not readable for us
        ("7\n", {7: ("postgres", 1, "other")}, r"names process 7, which is not visible.*remove that file"),
        ("7\n", {7: ("bash", 1, "data")}, r"names process 7, which is not visible"),
        (None, {7: ("postgres", 1, "data")}, r"a server \(pid 7\) runs"),
    ],
)
def test_a_server_that_runs_or_may_run_is_not_asked_by_its_directory(
    tmp_path: Path, file: str | None, processes: dict[int, tuple[str, int, str | None]], words: str
) -> None:
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
    if file is not None:
        (tmp_path / "data/postmaster.pid").write_text(file)
    for pid, (name, parent, cwd) in processes.items():
        a_process(tmp_path / "proc", pid, name, parent, tmp_path / cwd if cwd else None)
    with pytest.raises(UsageError, match=words):
        refuse_running(tmp_path / "data", tmp_path / "proc")


def test_a_directory_that_nobody_runs_on_may_be_asked(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    a_process(tmp_path / "proc", 7, "postgres", 1, tmp_path)
    refuse_running(tmp_path / "data", tmp_path / "proc")
    # Another user's process may have this name, and a directory that never answers: it is not examined.
    a_process(tmp_path / "proc", 8, "postgres", 1, tmp_path / "data", user=os.getuid() + 1)
    refuse_running(tmp_path / "data", tmp_path / "proc")
