"""PostgreSQL's source: a local tarball, one fetched before, Debian's source package, or upstream's tarball."""

import hashlib
import http.client
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
import urllib.request
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from octavo.errors import HostError, OctavoError, UsageError
from octavo.home import make_directory, octavo_home
from octavo.host import children
from octavo.host.journal import Journal

_UPSTREAM = "https://ftp.postgresql.org/pub/source"
_NAME = re.compile(r"postgresql-(?:\d+_)?(\d+\.\d+)(?:\.orig)?\.tar\.(?:bz2|gz|xz)")


@dataclass(frozen=True, slots=True)
class Source:
    """A release's tarball: its version (`18.6`), its digest, and where it came from in words."""

    version: str
    tarball: Path
    sha256: str
    origin: str


def find_source(version: str, journal: Journal, local: Path | None = None) -> Source:
    """The source of a major (`18`: the newest to be had) or minor (`18.6`) version.

    Looked for in this order: the local tarball, what was fetched before, Debian's source package,
    upstream. Raises HostError when none has it, naming what was tried.
    """
    if local is not None:
        return _local(local, version)
    if cached := _cached(version):
        return cached
    tried: list[str] = []
    for fetch in (_fetch_debian, _fetch_upstream):
        with tempfile.TemporaryDirectory(dir=make_directory(_directory())) as scratch:
            entry = journal.record("directory", path=scratch)
            try:
                tarball, origin = fetch(version, Path(scratch), journal)
            except OctavoError as error:
                tried.append(str(error))
            else:
                return _keep(tarball, origin)
            finally:
                journal.done(entry)
    raise HostError(f"no source of PostgreSQL {version}: {'; '.join(tried)}; give a tarball with --source FILE")


def unpack(source: Source, target: Path) -> Path:
    """Unpacks the tarball into the target directory and returns the source tree's root."""
    try:
        with tarfile.open(source.tarball) as archive:
            archive.extractall(target, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise OctavoError(f"{source.tarball} cannot be unpacked: {error}; remove it and run again") from error
    (root,) = [entry for entry in target.iterdir() if entry.is_dir()]
    return root


def _directory() -> Path:
    return octavo_home() / "sources"


def sha256_of(path: Path) -> str:
    """The file's sha256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version_of(path: Path) -> str | None:
    match = _NAME.search(path.name)
    return match[1] if match else None


def _matches(version: str, wanted: str) -> bool:
    return version == wanted or version.split(".")[0] == wanted


def _local(path: Path, wanted: str) -> Source:
    if not path.is_file():
        raise UsageError(f"--source {path}: no such file; give a tarball such as postgresql-18.6.tar.bz2")
    version = _version_of(path)
    if version is None or not _matches(version, wanted):
        raise UsageError(
            f"--source {path}: not a tarball of PostgreSQL {wanted} (expected postgresql-{wanted}….tar.bz2)"
        )
    return Source(version, path, sha256_of(path), f"local file {path.name}")


def _cached(wanted: str) -> Source | None:
    found: list[tuple[tuple[int, ...], Path]] = []
    for path in _directory().glob("postgresql-*.tar.*"):
        version = _version_of(path)
        if version and _matches(version, wanted) and path.with_suffix(".origin").exists():
            found.append((tuple(int(part) for part in version.split(".")), path))
    if not found:
        return None
    _, path = max(found)
    sha256, _, origin = path.with_suffix(".origin").read_text().strip().partition(" ")
    if sha256_of(path) != sha256:
        raise OctavoError(f"{path} is not what was fetched (its sha256 differs); remove it and run again")
    version = _version_of(path)
    assert version is not None
    return Source(version, path, sha256, origin)


def _keep(fetched: Path, origin: str) -> Source:
    """Moves a fetched tarball into the cache; it counts once its origin file stands beside it."""
    version = _version_of(fetched)
    assert version is not None
    kind = fetched.name.rpartition(".tar.")[2]
    path = _directory() / f"postgresql-{version}.tar.{kind}"
    shutil.move(fetched, path)
    sha256 = sha256_of(path)
    path.with_suffix(".origin").write_text(f"{sha256} {origin}\n")
    return Source(version, path, sha256, origin)


def _fetch_debian(wanted: str, scratch: Path, journal: Journal) -> tuple[Path, str]:
    """Fetches upstream's tarball out of Debian's source package, with apt's own checks of signature and digest.

    The machine's apt configuration is read for the archive's address and keyring and not changed: lists
    and caches are private. Debian's unstable suite has every supported major version's newest one.
    """
    major = wanted.split(".")[0]
    archive = _debian_archive()
    if archive is None or shutil.which("apt-get") is None:
        raise HostError("this is no Debian with an archive in its apt sources")
    address, keyring = archive
    for part in ("lists/partial", "cache/archives/partial"):
        (scratch / part).mkdir(parents=True)
    options = [
        "-o", f"Dir::State::lists={scratch / 'lists'}",
        "-o", f"Dir::Cache={scratch / 'cache'}",
        "-o", f"Dir::Etc::sourcelist={scratch / 'suite.sources'}",
        "-o", "Dir::Etc::sourceparts=-",
        "-o", "APT::Sandbox::User=",
        "-o", "Acquire::Languages=none",
    ]  # fmt: skip
    problem = ""
    for suite in ("stable", "unstable"):
        (scratch / "suite.sources").write_text(
            f"Types: deb-src\nURIs: {address}\nSuites: {suite}\nComponents: main\nSigned-By: {keyring}\n"
        )
        download = scratch / suite
        download.mkdir()
        for arguments in (["update"], ["source", "--download-only", f"postgresql-{major}"]):
            finished = children.run(
                ["apt-get", "-q", *options, *arguments],
                journal,
                role="apt-get",
                directory=download,
            )
            if finished.returncode != 0:
                problem = (finished.stderr.strip().splitlines() or ["it failed"])[0]
                break
        else:
            for path in download.glob("*.orig.tar.*"):
                version = _version_of(path)
                if version and _matches(version, wanted):
                    (description,) = download.glob("*.dsc")
                    return (
                        path,
                        f"Debian source package {description.stem} ({suite}), signature checked by apt",
                    )
            problem = f"Debian's {suite} has another minor version"
    raise HostError(f"Debian source package: {problem}")


def _debian_archive() -> tuple[str, str] | None:
    """The address of the Debian archive in this machine's apt sources, and the archive keyring."""
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    directory = Path("/etc/apt")
    files = [directory / "sources.list", *sorted((directory / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file() or not os.access(file, os.R_OK):
            continue
        for line in file.read_text(errors="replace").splitlines():
            match = re.match(r"\s*(?:URIs:|deb\s+(?:\[[^]]*\]\s+)?)\s*(\S+/debian/?)(?:\s|$)", line)
            if match and keyring.exists():
                return match[1], str(keyring)
    return None


def _fetch_upstream(wanted: str, scratch: Path, journal: Journal) -> tuple[Path, str]:
    """Fetches upstream's tarball and checks it against a digest that we know, or else the one beside it."""
    known: dict[str, str] = tomllib.loads(resources.files("octavo.postgres").joinpath("releases.toml").read_text())[
        "sha256"
    ]
    version = wanted if "." in wanted else max(
        (name for name in known if _matches(name, wanted)),
        key=lambda name: tuple(int(part) for part in name.split(".")),
        default="",
    )  # fmt: skip
    if not version:
        raise HostError(f"upstream: no release of {wanted} is known here; name the minor version, such as {wanted}.1")
    address = f"{_UPSTREAM}/v{version}/postgresql-{version}.tar.bz2"
    tarball = scratch / f"postgresql-{version}.tar.bz2"
    try:
        expected = known.get(version) or _read(f"{address}.sha256").decode().split()[0]
        tarball.write_bytes(_read(address))
    except (OSError, http.client.HTTPException) as error:
        raise HostError(f"upstream: {address}: {getattr(error, 'reason', error)}") from error
    if sha256_of(tarball) != expected:
        raise OctavoError(f"upstream: {address} does not have the sha256 {expected}")
    return tarball, f"{address}, sha256 checked"


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as response:  # noqa: S310 (our own https address)
        return response.read()
