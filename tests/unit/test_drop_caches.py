"""Dropped caches: by the kernel's switch if permitted, otherwise file by file; what remains is reported."""

from pathlib import Path

import pytest
from tests.unit.planted import plant

from octavo.host.page_cache import cached_bytes
from octavo.knobs.drop_caches import drop_caches

MB = 1024**2


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    (directory / "base").mkdir(parents=True)
    (directory / "base" / "relation").write_bytes(b"x" * 3 * MB)
    (directory / "link").symlink_to("/nowhere")
    return directory


def test_the_kernels_switch_is_used_and_what_stays_is_told(data: Path, tmp_path: Path) -> None:
    plant(tmp_path, {"sys/vm/drop_caches": "0\n"})
    told = drop_caches(data, proc=tmp_path)
    assert (tmp_path / "sys/vm/drop_caches").read_text() == "3"
    # A planted switch does not drop anything.
    assert told in ({"caches_emptied_by": "drop_caches", "cached_bytes_left": left} for left in (3 * MB, None))


def test_without_the_right_the_files_are_given_up(data: Path, tmp_path: Path) -> None:
    try:
        assert cached_bytes(data) == 3 * MB
    except OSError as error:
        pytest.skip(str(error))
    assert drop_caches(data, proc=tmp_path / "nothing") == {
        "caches_emptied_by": "posix_fadvise",
        "cached_bytes_left": 0,
    }
