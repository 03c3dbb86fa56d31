"""`octavo build exec` runs programs of a build as whoever asks; root is told when others wrote them."""

import os
from pathlib import Path

import pytest

from octavo.cli import build_cache
from octavo.host import foreground
from octavo.postgres.builds.cache import RECORDS, Build
from octavo.postgres.builds.usage import not_postgresqls

_CHECKED = "Debian source package postgresql-18_18.6-3, signature checked by apt"


@pytest.mark.parametrize(
    ("origin", "extension", "told"),
    [
        (_CHECKED, None, ""),
        ("https://example.org/a.tar.bz2, sha256 known to Octavo", None, ""),
        ("https://example.org/a.tar.bz2, sha256 as published beside it", None, "itself from https://example.org"),
        ("local source tree pg", None, "itself from local source tree pg"),
        (_CHECKED, "petals", "the extension petals"),
    ],
)
def test_root_is_told_whose_programs_it_runs(
    origin: str, extension: str | None, told: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    build = Build("one", tmp_path, {"origin": origin})
    (tmp_path / RECORDS).mkdir()
    (tmp_path / RECORDS / ".half.begun").touch()
    if extension:
        (tmp_path / RECORDS / f"{extension}.json").write_text("{}")
    assert ", ".join(not_postgresqls(build)).startswith(told)
    ran: list[list[str]] = []

    def become(command: list[str], _: dict[str, str]) -> None:
        ran.append(command)

    def chosen(*_: object) -> Build:
        return build

    monkeypatch.setattr(foreground, "become", become)
    monkeypatch.setattr(build_cache, "_chosen", chosen)
    for uid in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda uid=uid: uid)
        build_cache.execute(["psql"])
        said = capfd.readouterr().err
        assert said.startswith(f"psql runs as root, and the build has {told}" if told and uid == 0 else "")
        assert bool(said) == bool(told and uid == 0)
    assert ran == [["psql"]] * 2
