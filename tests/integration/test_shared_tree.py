"""Builds at many sizes from one tree: the same bytes as from scratch, each part made once, nothing incomplete."""

import os
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from tests.thorough import THOROUGH, times

from octavo.host import children
from octavo.host.journal import Journal, recover
from octavo.postgres.builds.cache import Build, list_builds
from octavo.postgres.builds.make import FROM_SCRATCH, ensure_builds
from octavo.postgres.builds.prove import prove, replace_derived
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.stages import LOOKING, BuildStep
from octavo.postgres.source import sha256_of

from . import tiny_postgres

pytestmark = pytest.mark.beside

DATA, WAL = ("8kB", "2kB", "32kB"), ("8kB", "64kB")
SPECS = [BuildSpec("18", data, wal) for data, wal in product(DATA, WAL)]


def says(build: Build, journal: Journal) -> str:
    return children.check(children.run([build.program("postgres")], journal, role="test"), "asking").stdout.strip()


def expected(build: Build) -> str:
    data, wal = (int(build.manifest[name].removesuffix("kB")) * 1024 for name in ("data_block", "wal_block"))
    return f"{data} {wal} {data + wal} {int(data >= 4096 and wal < 16384)} 3"


def is_whole(build: Build) -> bool:
    return all(sha256_of(build.prefix / name) == digest for name, digest in build.manifest["files"].items())


def test_every_build_is_that_from_scratch_byte_for_byte(own_home: Path, tmp_path: Path) -> None:
    tarball = tiny_postgres.write_tarball(tmp_path)
    seen: list[str] = []
    with Journal() as journal:
        builds = ensure_builds(SPECS, journal, local=tarball, ready=lambda build: seen.append(build.name))
        assert sorted(seen) == sorted(build.name for build in builds) and len(set(seen)) == len(SPECS)
        assert not any(build.manifest["made"] == FROM_SCRATCH for build in builds)
        for build in builds:
            assert says(build, journal) == expected(build)
            assert is_whole(build)
        for spec in SPECS if THOROUGH else SPECS[1::2]:  # otherwise each data block, once
            assert prove(spec, journal, local=tarball).differing == ()
    # Files that do not depend on a size exist once.
    for name in ("bin/plain_program", "include/c.h", "share/made.txt"):
        assert len({(build.prefix / name).stat().st_ino for build in builds}) == 1, name
    assert len({(build.prefix / "bin/sized_program").read_bytes() for build in builds}) == len(DATA)
    assert not any((own_home / "work").iterdir())


def test_debug_symbols_name_one_place_whatever_the_size(own_home: Path, tmp_path: Path) -> None:
    tarball = tiny_postgres.write_tarball(tmp_path)
    specs = [replace(spec, debug_symbols=True) for spec in SPECS]
    with Journal() as journal:
        assert not any(build.manifest["made"] == FROM_SCRATCH for build in ensure_builds(specs, journal, local=tarball))
        assert prove(specs[-1], journal, local=tarball).differing == ()


def test_each_object_is_compiled_once_for_what_it_depends_on(own_home: Path, tmp_path: Path) -> None:
    steps: list[tuple[str, int]] = []
    with Journal() as journal:
        ensure_builds(
            SPECS,
            journal,
            local=tiny_postgres.write_tarball(tmp_path),
            progress=lambda step: steps.append((step.doing, step.total)),
        )
    # For the 5 sizes besides the first: data.c, sized.c, libcommon.a and sized_program for 2 data blocks, wal.c for one
    # WAL block, both.c and postgres for 5 pairs, conditional.c for its other text, and 5 notes that a build is ready.
    assert steps[-1] == ("compilation of 5 more sizes", 4 * 2 + 1 + 5 * 2 + 1 + 5)


def test_what_was_found_before_is_not_looked_for_again_and_a_changed_source_is(own_home: Path, tmp_path: Path) -> None:
    asked: list[int] = []

    def note(step: BuildStep) -> None:
        if step.doing == LOOKING and step.done == 0:
            asked.append(step.total)

    tarball = tiny_postgres.write_tarball(tmp_path)
    with Journal() as journal:
        made = ensure_builds(SPECS[:2], journal, local=tarball, progress=note)
        shutil.rmtree(own_home / "builds")
        again = ensure_builds(SPECS[:2], journal, local=tarball, progress=note)
        assert [build.manifest["files"] for build in again] == [build.manifest["files"] for build in made]
        tiny_postgres.write_tarball(tmp_path, plain='#include "c.h"\nint plain(void) { return BLCKSZ; }\n')
        other = ensure_builds(SPECS[:3], journal, local=tarball, progress=note)
        assert not any(build.manifest["made"] == FROM_SCRATCH for build in (*made, *again, *other))
        assert [says(build, journal).split()[-1] for build in other] == ["8192", "8192", "2048"]
        assert prove(SPECS[2], journal, local=tarball).differing == ()
    # Of 12 objects the sizes reach 4; 1 has a conditional, and is checked again for the second of the sizes.
    # In the other source they reach plain.c, too.
    assert asked == [13, 6, 8]


@pytest.mark.parametrize(
    ("difference", "reason"),
    [
        (
            {"extra": "configure_file(output: 'other.h', configuration: {'BLOCK': blocksize})"},
            "the sizes change other.h, src/include/pg_config.h",
        ),
        (
            {
                "maker": '#include "c.h"\n#include <stdio.h>\nint main(int argc, char **argv)\n'
                '{ FILE *file = fopen(argv[argc - 1], "w"); fprintf(file, "%d", BLCKSZ); return 0; }\n'
            },
            "made.txt is made by a tool that depends on the sizes",
        ),
    ],
)
def test_what_cannot_share_a_tree_is_made_from_scratch(
    own_home: Path, tmp_path: Path, difference: dict[str, str], reason: str
) -> None:
    told: list[str] = []
    with Journal() as journal:
        builds = ensure_builds(
            SPECS[:3], journal, local=tiny_postgres.write_tarball(tmp_path, **difference), notice=told.append
        )
        assert [says(build, journal) for build in builds] == [expected(build) for build in builds]
    assert all(build.manifest["made"] == FROM_SCRATCH for build in builds)
    assert len(told) == 1
    assert reason in told[0]


def test_a_wrong_build_is_found_out_and_replaced(own_home: Path, tmp_path: Path) -> None:
    tarball = tiny_postgres.write_tarball(tmp_path)
    with Journal() as journal:
        builds = ensure_builds(SPECS[:2], journal, local=tarball)
        wrong = builds[1].program("postgres")
        content = wrong.read_bytes()
        wrong.unlink()  # the file may be linked from other builds
        wrong.write_bytes(content + b"\0")
        proof = prove(SPECS[1], journal, local=tarball)
        assert proof.differing == ("bin/postgres",)
        assert replace_derived(SPECS[:2], journal, local=tarball) == 2
        again = ensure_builds(SPECS[:2], journal, local=tarball)
        assert [build.manifest["made"] for build in again] == [FROM_SCRATCH, FROM_SCRATCH]
        assert all(is_whole(build) for build in again)


_BUILDER = """
import sys
from itertools import product
from pathlib import Path
from octavo.host.journal import Journal
from octavo.postgres.builds.make import ensure_builds
from octavo.postgres.builds.spec import BuildSpec
specs = [BuildSpec("18", data, wal) for data, wal in product(sys.argv[2].split(","), sys.argv[3].split(","))]
with Journal() as journal:
    ensure_builds(specs, journal, local=Path(sys.argv[1]))
"""


def test_killed_at_many_moments_it_never_leaves_a_wrong_or_half_build(own_home: Path, tmp_path: Path) -> None:
    """More than a minute in full: each builder that is killed has configured and compiled first."""
    tarball = tiny_postgres.write_tarball(tmp_path)
    command = [sys.executable, "-c", _BUILDER, str(tarball), ",".join(DATA), ",".join(WAL)]
    began = time.monotonic()
    subprocess.run(command, check=True, env=dict(os.environ))
    whole = time.monotonic() - began
    moments = random.Random(3)
    finished: list[int] = []
    for _ in range(times(30, 8)):
        shutil.rmtree(own_home / "builds", ignore_errors=True)
        builder = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
        try:
            builder.wait(moments.uniform(0.0, whole))
        except subprocess.TimeoutExpired:
            builder.kill()
        builder.wait()
        told = recover()
        builds = list_builds()
        finished.append(len(builds))
        with Journal() as journal:
            assert all(is_whole(build) and says(build, journal) == expected(build) for build in builds)
        left = [path for path in (own_home / "work", own_home / "builds") if path.exists() for path in path.iterdir()]
        assert not [path for path in left if path.is_dir() and path.name not in {build.name for build in builds}], told
    assert 0 in finished  # some were killed before the first build was complete,
    with Journal() as journal:  # and the next one always succeeds
        assert all(is_whole(build) for build in ensure_builds(SPECS, journal, local=tarball))
