"""The contents of the single file, and what it loads from memory."""

import ast
import doctest
import errno
import os
import sys
import zipimport
from pathlib import Path

import pytest
from distribution import libraries
from distribution.archive import unzipped, zipped
from distribution.bytecode import compiled, interpreters
from distribution.launcher import octavo_launcher
from distribution.launcher.octavo_launcher import Extensions, in_memory

LAUNCHER = Path(octavo_launcher.__file__)
EPOCH = 1_700_000_000
MODULES = {
    "package/__init__.py": b"import os\nNAMES = {'a', 'b', 'c', 'd'}\nassert NAMES >= {'a', 'b'}\n",
    "package/query.sql": b"SELECT 1",
}


def test_an_archive_depends_on_its_files_alone() -> None:
    files = {"b/a": b"one" * 100, "a": b"two", "c": b"three" * 100}
    made = zipped(files, EPOCH, stored=frozenset({"c"}))
    assert made == zipped(dict(reversed(files.items())), EPOCH, stored=frozenset({"c"}))
    assert made != zipped(files, EPOCH + 2, stored=frozenset({"c"}))
    assert unzipped(made) == files


def test_bytecode_has_no_place_and_no_time_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    magic, files = compiled(MODULES, Path(sys.executable))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert compiled(MODULES, Path(sys.executable)) == (magic, files)
    assert files.keys() == {"package/__init__.pyc", "package/query.sql"}
    assert bytes.fromhex(magic) == files["package/__init__.pyc"][:4]
    assert not any(str(tmp_path).encode() in content for content in files.values())


def test_a_python_that_is_not_there_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, program in {"python3.11": "exit 127", "python3.12": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreters(["3.11", "3.12", "3.13"]) == {"3.12": tmp_path / "python3.12"}


def test_what_an_object_links_is_read_from_it() -> None:
    assert "libc.so.6" in libraries.needed(Path("/bin/sh").read_bytes())
    assert doctest.testmod(libraries) == (0, 1)


def test_what_is_in_memory_cannot_be_changed() -> None:
    path = Path(in_memory("test", b"content"))
    assert path.read_bytes() == b"content"
    with pytest.raises(PermissionError), path.open("r+b") as file:
        file.write(b"other")
    with pytest.raises(PermissionError), path.open("ab") as file:
        file.write(b"more")


def test_a_kernel_that_runs_no_code_from_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str, _flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr("os.memfd_create", refuse)
    with pytest.raises(ImportError, match=r"runs no code from memory \(vm\.memfd_noexec is 2\)"):
        in_memory("test", b"content")


def test_an_older_kernel_knows_no_flag_for_code(monkeypatch: pytest.MonkeyPatch) -> None:
    make, old = os.memfd_create, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING

    def only_old(name: str, flags: int) -> int:
        if flags & ~old:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return make(name, flags)

    monkeypatch.setattr("os.memfd_create", only_old)
    assert Path(in_memory("test", b"content")).read_bytes() == b"content"


def test_a_library_that_does_not_load_is_named(tmp_path: Path) -> None:
    links = b'{"package.fast": {"package/fast.abi3.so": ["libbroken.so.1"]}}'
    (tmp_path / "file").write_bytes(zipped({"native/modules.json": links, "native/libbroken.so.1": b"?"}, EPOCH))
    extensions = Extensions(zipimport.zipimporter(str(tmp_path / "file")))
    assert extensions.find_spec("package") is None
    with pytest.raises(ImportError, match=r"libbroken\.so\.1: /proc/self/fd/\d+: file too short|invalid ELF header"):
        extensions.find_spec("package.fast")


def test_an_old_python_understands_where_it_begins() -> None:
    ast.parse((LAUNCHER.parent / "__main__.py").read_text(), feature_version=(3, 4))


def test_without_proc_a_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(octavo_launcher, "_DESCRIPTORS", tmp_path / "proc")
    with pytest.raises(SystemExit) as ended:
        octavo_launcher.start(str(tmp_path / "file"))
    assert ended.value.code == 3
    assert capsys.readouterr().err.startswith("octavo: /proc is not mounted; ")
