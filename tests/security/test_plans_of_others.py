"""A plan that another user wrote, run by root: files that it names are read, and lent to servers that run them."""

import os
from pathlib import Path

import pytest
from tests.security.conftest import needs_root

from octavo.errors import UsageError
from octavo.plan.presets import find_plan
from octavo.workload_support import files

pytestmark = needs_root
_NOBODY = 65534
_PLAN = """\
name = "theirs"
question = "What is in it?"
workload = "custom"
baseline = {{ data_block = "8kB" }}
[factors]
data_block = ["8kB", "4kB"]
archive = "{archive}"
script = "{script}"
"""


@pytest.fixture
def theirs(shared: Path) -> Path:
    """A directory of nobody's, with an archive and a script of his."""
    place = shared / "theirs"
    place.mkdir()
    for name in ("dump.sql", "a.sql"):
        (place / name).write_text("SELECT 1;\n")
        (place / name).chmod(0o600)
        os.chown(place / name, _NOBODY, _NOBODY)
    os.chown(place, _NOBODY, _NOBODY)
    return place


def _written(place: Path, archive: object = "dump.sql", script: object = "a.sql") -> str:
    plan = place / "plan.toml"
    plan.write_text(_PLAN.format(archive=archive, script=script))
    return str(plan)


def _secret(shared: Path) -> Path:
    """A file that only root may read, in a directory that all may enter."""
    path = shared / "secret"
    path.write_text("SELECT 'a key';\n")
    path.chmod(0o600)
    return path


def test_what_its_writer_may_not_read_it_cannot_name(shared: Path, theirs: Path) -> None:
    secret = _secret(shared)
    assert find_plan(_written(theirs))[0].factors["archive"] == [str(theirs / "dump.sql")]
    for plan in ({"archive": secret}, {"script": secret}, {"script": f"a.sql@3 + {secret}@1"}):
        with pytest.raises(UsageError, match="nobody can change the plan that names ") as raised:
            find_plan(_written(theirs, **plan))
        assert "\n" not in str(raised.value)
    # Permissions of root's groups do not count either.
    secret.chmod(0o640)
    with pytest.raises(UsageError, match="may not read it"):
        find_plan(_written(theirs, archive=secret))
    secret.chmod(0o644)
    find_plan(_written(theirs, archive=secret))


def test_nor_a_directory_with_such_a_file(shared: Path, theirs: Path) -> None:
    archive = shared / "archive"
    archive.mkdir(mode=0o755)
    (archive / "toc.dat").write_text("PGDMP")
    find_plan(_written(theirs, archive=archive))
    (archive / "1.dat").write_text("a key")
    (archive / "1.dat").chmod(0o600)
    with pytest.raises(UsageError, match="may not read it"):
        find_plan(_written(theirs, archive=archive))


def test_a_plan_of_roots_names_what_it_likes(shared: Path) -> None:
    secret = _secret(shared)
    assert files.authors_of(Path(_written(shared))) == []
    find_plan(_written(shared, archive=secret, script=secret))
    (shared / "plan.toml").chmod(0o666)
    assert files.authors_of(shared / "plan.toml") == [_NOBODY]
    with pytest.raises(UsageError, match="may not read it"):
        find_plan(str(shared / "plan.toml"))


def test_whoever_can_put_another_plan_there_has_written_it(shared: Path, theirs: Path) -> None:
    plan = _written(theirs)
    os.chown(plan, 0, 0)
    (shared / "link").symlink_to(plan)
    assert files.authors_of(Path(plan)) == files.authors_of(shared / "link") == [_NOBODY]
    (theirs / "circle").symlink_to(theirs / "circle")
    assert files.authors_of(theirs / "missing.toml") == [_NOBODY]
    assert files.authors_of(shared / "missing.toml") == [_NOBODY]  # another user may create it before it is read
    with pytest.raises(UsageError, match=r"No such file .*octavo presets show"):
        find_plan(str(shared / "missing.toml"))
    for name in ("circle", "a\0b"):
        with pytest.raises(UsageError, match="cannot be read"):
            files.authors_of(theirs / name)
