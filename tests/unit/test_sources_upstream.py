"""Sources from upstream, with a server on loopback in its place, and messages without any network."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.unit.source_trees import CONFIGURE, one_line

from octavo.errors import HostError
from octavo.host import apt
from octavo.host.journal import Journal
from octavo.postgres.source import find_source, sha256_of, unpack
from octavo.postgres.sources import fetched, upstream


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OCTAVO_HOME", str(tmp_path / "home"))
    return tmp_path


@dataclass
class Upstream:
    """The files of the server, by path; the answers for `cut` paths break off half way."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    cut: set[str] = field(default_factory=set[str])

    def publish(self, version: str, content: bytes, digest: str | None = None) -> None:
        """A release with its digest beside it."""
        name = f"postgresql-{version}.tar.bz2"
        self.files[f"/v{version}/{name}"] = content
        told = digest or hashlib.sha256(content).hexdigest()
        self.files[f"/v{version}/{name}.sha256"] = f"{told}  {name}\n".encode()
        links = "".join(f'<a href="{path.split("/")[1]}/">' for path in self.files if path.endswith(".bz2"))
        self.files["/"] = f"<html>{links}</html>".encode()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    """Only upstream, at an address on loopback."""
    content = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = content.files.get(self.path)
            if body is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if self.path in content.cut else body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(upstream, "ADDRESS", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setattr("octavo.postgres.source.FETCHED_KINDS", (upstream,))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        trusting = upstream.trusts_published.set(True)
        yield content
        upstream.trusts_published.reset(trusting)
        server.shutdown()
        thread.join()


def packed(version: str) -> bytes:
    """A tarball of a tree of this version."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:bz2") as archive:
        text = CONFIGURE.format(version).encode()
        member = tarfile.TarInfo(f"postgresql-{version}/configure.ac")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return file.getvalue()


def test_the_newest_minor_version_is_fetched_checked_and_kept(home: Path, journal: Journal, served: Upstream) -> None:
    for version in ("18.98", "18.101", "18.99", "17.200"):
        served.publish(version, packed(version))
    source = find_source("18", journal)
    assert source.version == "18.101"
    assert source.origin.endswith("/v18.101/postgresql-18.101.tar.bz2, sha256 as published beside it")
    assert source.sha256 == sha256_of(source.tarball)
    assert unpack(source, home / "unpacked").name == "postgresql-18.101"
    served.files.clear()  # from now on upstream is missing
    assert find_source("18", journal) == source
    assert find_source("18.101", journal) == source
    left = {path.name for path in (home / "home" / "sources").iterdir()}
    assert left == {"postgresql-18.101.tar.bz2", "postgresql-18.101.tar.origin"}


def test_a_minor_version_is_fetched_by_name(journal: Journal, served: Upstream, home: Path) -> None:
    for version in ("18.98", "18.99", "19beta1"):
        served.publish(version, packed(version))
    assert find_source("18.98", journal).version == "18.98"
    assert find_source("19beta1", journal).version == "19beta1"
    with pytest.raises(HostError, match="lists no release of 19"):
        find_source("19", journal)


def test_a_wrong_digest_is_refused(home: Path, journal: Journal, served: Upstream) -> None:
    served.publish("18.99", packed("18.99"), digest="0" * 64)
    with pytest.raises(HostError, match="does not have the sha256 0000") as problem:
        find_source("18.99", journal)
    one_line(problem)
    assert fetched.find("18") is None


def test_a_digest_that_we_know_goes_before_the_one_beside_the_tarball(journal: Journal, served: Upstream) -> None:
    served.publish("18.6", b"another tarball than the one that was released")
    with pytest.raises(HostError, match="does not have the sha256 5556"):
        find_source("18.6", journal)


def test_a_download_that_breaks_off_is_told(journal: Journal, served: Upstream) -> None:
    served.publish("18.99", bytes(1000))
    served.cut.add("/v18.99/postgresql-18.99.tar.bz2")
    with pytest.raises(HostError, match="broke off after 500 of 1000 bytes") as problem:
        find_source("18.99", journal)
    one_line(problem)
    served.cut.add("/v18.99/postgresql-18.99.tar.bz2.sha256")
    with pytest.raises(HostError, match=r"\.sha256: IncompleteRead"):
        find_source("18.99", journal)


def test_a_version_that_is_not_there_is_told(journal: Journal, served: Upstream) -> None:
    with pytest.raises(HostError, match="404") as problem:
        find_source("18.99", journal)
    one_line(problem)


def test_without_a_network_every_way_is_named_and_the_way_out(
    home: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_address[1]
    monkeypatch.setattr(upstream, "ADDRESS", f"http://127.0.0.1:{port}")  # nothing listens there any more
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(apt, "addresses", dict[str, str])
    with pytest.raises(HostError) as problem:
        find_source("18", journal)
    text = one_line(problem)
    assert f"none in {home / 'home' / 'sources'}" in text
    assert "Debian: this system has no Debian archive" in text
    assert "upstream: http://127.0.0.1" in text and "refused" in text
    assert text.endswith("give a tarball, a source tree or a git checkout with --source")
