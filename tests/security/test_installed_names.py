"""Files that an extension may not install, so that no program of the build loads them in place of the system's, and
that the build's records name them."""

from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.postgres import extension
from octavo.postgres.builds.cache import Build


def _check(prefix: Path, name: str) -> None:
    record = {"name": "vector", "files": {name: "digest"}}
    extension._check_free(Build("18", prefix, {"files": {}}), record, set())  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "name",
    [
        "lib/libc.so.6",
        "lib/glibc-hwcaps/x86-64-v3/libc.so.6",
        "lib/tls/haswell/libz.so.1",
        "lib/x86_64/lib\nz.so.1",
    ],
)
def test_no_library_where_the_loader_looks_before_the_systems(tmp_path: Path, name: str) -> None:
    with pytest.raises(OctavoError, match="which the build's programs may load by its name"):
        _check(tmp_path, name)


@pytest.mark.parametrize("name", ["lib/vector.so", "lib/bitcode/vector/src/hnsw.bc", "share/extension/vector.control"])
def test_modules_are_installed(tmp_path: Path, name: str) -> None:
    _check(tmp_path, name)


@pytest.mark.parametrize("name", ["share/extension/.vector.control", "lib/.vector.so"])
def test_no_extension_whose_record_would_be_hidden(tmp_path: Path, name: str) -> None:
    """These records tell root whose programs a build contains."""
    file = tmp_path / Path(name).name
    file.touch()
    with pytest.raises(OctavoError, match=r"\.vector begins with a dot"):
        extension._describe(tmp_path / "sources", "digest", {name: file})  # pyright: ignore[reportPrivateUsage]
