"""Upstream's tarballs, checked against a known digest.

Upstream does not sign tarballs: next to each are only checksums, which an attacker who replaces the tarball can replace
too. So an unknown release is accepted by its published checksum only if the user says so.
"""

import http.client
import re
import tomllib
import urllib.error
import urllib.request
from contextvars import ContextVar
from importlib import resources
from pathlib import Path

from octavo.errors import HostError, OctavoError
from octavo.host.journal import Journal
from octavo.postgres.sources.base import KNOWN, sha256_of
from octavo.postgres.versions import answers, is_release, order_of

ADDRESS = "https://ftp.postgresql.org/pub/source"

# Whether the user trusts the checksum published next to a tarball (`octavo build --trust-checksum`).
trusts_published = ContextVar("trusts_published", default=False)

_SECONDS = 60  # the network timeout
_CHUNK = 1024**2


def fetch(wanted: str, scratch: Path, journal: Journal, /) -> tuple[Path, str]:
    """Fetches the given version, or the newest release of the major version in upstream's directory: among those with a
    known digest, unless the published one is trusted.

    Raises HostError when it does not exist, or its digest is unknown; OctavoError when the digest differs.
    """
    version = wanted if not wanted.isdecimal() else _newest(wanted)
    address = f"{ADDRESS}/v{version}/postgresql-{version}.tar.bz2"
    known = known_digests().get(version)
    if known is None and not trusts_published.get():
        raise HostError(_unknown(version))
    expected = known or _published_digest(address)
    tarball = scratch / f"postgresql-{version}.tar.bz2"
    _download(address, tarball)
    if sha256_of(tarball) != expected:
        raise OctavoError(f"upstream: {address} does not have the sha256 {expected}; it is not used")
    return tarball, f"{address}, {KNOWN if known else 'sha256 as published beside it'}"


def _newest(wanted: str) -> str:
    listing = _read(f"{ADDRESS}/").decode(errors="replace")
    versions = {version for version in re.findall(r"\bv(\d+\.\d+)/", listing) if answers(version, wanted)}
    if not versions:
        raise HostError(f"upstream: {ADDRESS}/ lists no release of {wanted}")
    releases = {version for version in versions if is_release(version)}
    known = releases & known_digests().keys()
    return max(known if known and not trusts_published.get() else releases, key=order_of)


def _unknown(version: str) -> str:
    return (
        f"upstream: the sha256 of {version} is not known to Octavo, and upstream signs no tarball; to trust the "
        f"checksum published beside it once: octavo build --pg {version} --trust-checksum; later commands use the "
        "source that it keeps"
    )


def known_digests() -> dict[str, str]:
    """The sha256 of the tarballs of releases that we have seen, by version."""
    return tomllib.loads(resources.files("octavo.postgres").joinpath("releases.toml").read_text())["sha256"]


def _published_digest(address: str) -> str:
    match = re.match(r"([0-9a-f]{64})\b", _read(f"{address}.sha256").decode(errors="replace"))
    if match is None:
        raise OctavoError(f"upstream: {address}.sha256 holds no sha256")
    return match[1]


def _read(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as response:  # noqa: S310 (our own https address)
            return response.read()
    except (OSError, http.client.HTTPException) as error:
        raise _as_host_error(address, error) from error


def _download(address: str, path: Path) -> None:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as response, path.open("wb") as file:  # noqa: S310
            expected = response.headers.get("Content-Length")
            while chunk := response.read(_CHUNK):
                file.write(chunk)
            received = file.tell()
    except (OSError, http.client.HTTPException) as error:
        raise _as_host_error(address, error) from error
    if expected is not None and received != int(expected):
        raise HostError(f"upstream: {address}: the download broke off after {received} of {expected} bytes; try again")


def _as_host_error(address: str, error: Exception) -> HostError:
    if isinstance(error, urllib.error.HTTPError):
        return HostError(f"upstream: {address}: {error.code} {error.reason}")
    reason = getattr(error, "reason", "") or error
    return HostError(f"upstream: {address}: {getattr(reason, 'strerror', '') or reason}")
