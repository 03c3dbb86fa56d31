"""`report --site` as root into another user's directory: its owner can replace anything by a link."""

import os
from pathlib import Path

import pytest

from octavo.errors import HostError
from octavo.report.site_directory import replacing_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.mark.parametrize("whose", ["another user's", "everybody's"])
def test_nothing_is_written_where_others_can_swap_directories(whose: str, shared: Path) -> None:
    theirs, roots = shared / "theirs", shared / "roots"
    (theirs / "below").mkdir(parents=True)
    roots.mkdir()
    if whose == "another user's":
        os.chown(theirs, 65534, 65534)
    else:
        theirs.chmod(0o777)
    for parent in (theirs, theirs / "below"):  # whoever can change a directory can also change those below it
        with pytest.raises(HostError, match="theirs") as raised, replacing_directory(parent / "site") as beside:
            beside.rename(beside.with_suffix(".gone"))  # as its owner might do meanwhile
            beside.symlink_to(roots)
            (beside / "index.html").write_text("planted")
        assert "\n" not in str(raised.value)
        assert list(roots.iterdir()) == []


def test_a_sticky_directory_and_roots_own_will_do(shared: Path) -> None:
    shared.chmod(0o1777)
    for target in (shared / "site", shared / "site"):
        with replacing_directory(target) as beside:
            (beside / "index.html").write_text("ours")
        assert (target / "index.html").read_text() == "ours"


def test_no_directory_is_made_through_a_link_of_others(shared: Path) -> None:
    theirs, roots = shared / "theirs", shared / "roots"
    theirs.mkdir()
    roots.mkdir()
    (theirs / "link").symlink_to(roots)
    os.chown(theirs, 65534, 65534)
    with pytest.raises(HostError, match="theirs"), replacing_directory(theirs / "link" / "new" / "site"):
        pass
    assert list(roots.iterdir()) == []
    with replacing_directory(shared / "new" / "site") as beside:
        (beside / "index.html").write_text("ours")
