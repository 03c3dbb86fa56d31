"""The beginnings of archives that a user gives: dumps, and tarballs of sources."""

# pyright: reportPrivateUsage=false
# Some parsers are private to their module.

import gzip
import io
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import MagicMock, patch

from tests.fuzz.fuzzing import Parser, check, parametrized

from octavo.postgres.sources import base, tarball
from octavo.workload_support import restore

_SQL = b"""\
--
-- PostgreSQL database dump
--
-- Dumped from database version 17.2 (Debian 17.2-1)
-- Dumped by pg_dump version 18.6
SET statement_timeout = 0;
CREATE TABLE public.t (a integer);
ALTER TABLE public.t OWNER TO app;
GRANT SELECT ON TABLE public.t TO app, "Big ""Boss"" 2";
"""
_CUSTOM = b"PGDMP\x01\x10\x00\x04\x08\x01\x01\x01\x00\x00\x00\x00\x2a\x00\x00\x00\x00\x04\x00\x00\x00postgres\x00"
_LIST = (
    b";\n; Archive created at 2026-11-24\n;     Dumped from database version: 17.2\n;\n5; 2615 2200 SCHEMA - public\n"
)


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in (
            ("postgresql-18.6/meson.build", b"project('postgresql', ['c'], version: '18.6')\n"),
            ("postgresql-18.6/configure.ac", b"AC_INIT([PostgreSQL], [18.6], [x])\n"),
            ("toc.dat", b"PGDMP"),
        ):
            facts = tarfile.TarInfo(name)
            facts.size = len(content)
            archive.addfile(facts, io.BytesIO(content))
    return packed.getvalue()[:5120]


def _dump(text: bytes, place: Path) -> object:
    archive = place / "dump"
    archive.write_bytes(text)
    if not restore.is_sql(archive):
        return None
    named = [restore.roles_named(line) for line in archive.read_text(errors="replace").splitlines()]
    server = MagicMock()
    server.build.manifest = {"version": "18.6"}
    restore._check_version(restore._version_in(restore._head(archive)), archive, server)
    return named


def _directory(text: bytes, place: Path) -> object:
    (place / "toc.dat").write_bytes(text)
    return restore.is_sql(place)


def _complaint(text: bytes, _: Path) -> object:
    said = text.decode(errors="replace")
    return restore.first_error(said), restore._version_in(said)


def _tarball(text: bytes, place: Path) -> object:
    path = place / "source.tar.gz"
    path.write_bytes(text)
    with patch.dict(os.environ, OCTAVO_HOME=str(place / "home")):
        try:
            return tarball.take(path, MagicMock())
        finally:
            shutil.rmtree(place / "home", ignore_errors=True)


def _version(text: bytes, _: Path) -> object:
    said = text.decode(errors="replace")
    return [base.version_in_text(name, said) for name in base.TELLING_FILES]


PARSERS: Sequence[Parser] = (
    Parser("dump, head", _dump, (_SQL, _CUSTOM, _tar()[:1024])),
    Parser("dump, directory", _directory, (_CUSTOM,)),
    Parser("pg_restore's words", _complaint, (_LIST, b"pg_restore: error: could not execute query: ERROR:  a\n")),
    Parser("tarball of sources", _tarball, (_tar(), gzip.compress(_tar()))),
    Parser(
        "version of a tree", _version, (b"AC_INIT([PostgreSQL], [18.6], [x])\n", b"project('postgresql', version: '1')")
    ),
)


@parametrized(PARSERS)
def test_any_text_is_read_or_refused(parser: Parser) -> None:
    check(parser)
