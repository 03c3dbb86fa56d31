"""A profile-guided build, on a tiny PostgreSQL whose programs stand for the training: trained, and without counters."""

from pathlib import Path

import pytest

from octavo.errors import OctavoError
from octavo.host.journal import Journal
from octavo.postgres.builds import training
from octavo.postgres.builds.make import FROM_SCRATCH, ensure_builds, plan_builds
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.builds.stages import INSTRUMENTED, TRAINING

from . import tiny_postgres

pytestmark = pytest.mark.beside


_PROGRAMS = "\n".join(
    f"executable('{name}', '{source}.c', install: true)"
    for name, source in (("initdb", "initdb"), ("psql", "client"), ("pgbench", "bufmgr"), ("pg_isready", "asked"))
)
_INITDB = """
    #include <string.h>
    #include <sys/stat.h>
    int main(int n, char **words)
    {
        for (int at = 1; at < n - 1; at++) if (strcmp(words[at], "--pgdata") == 0) return mkdir(words[at + 1], 0700);
        return 1;
    }
"""
# A server ends by itself when it is asked to, and then writes its counters.
_POSTGRES = """
    #include "c.h"
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    static void end(int signal) { exit(0); }
    int main(int n, char **words)
    {
        if (n > 1 && strcmp(words[1], "--version") == 0) { puts("postgres (PostgreSQL) 18.99"); return 0; }
        signal(SIGTERM, end);
        fclose(fopen("ready", "w"));
        for (;;) pause();
    }
"""
_ASKED = '#include <unistd.h>\nint main(void) { return access("ready", F_OK) ? 2 : 0; }\n'
_CLIENT = "int main(void) { return 0; }\n"
SPECS = [BuildSpec("18", data, options=(training.USE,)) for data in ("8kB", "32kB")]


def tarball(directory: Path, **replaced: str) -> Path:
    programs = {"initdb": _INITDB, "postgres": _POSTGRES, "asked": _ASKED, "client": _CLIENT, "bufmgr": _CLIENT}
    return tiny_postgres.write_tarball(directory, extra=_PROGRAMS, **{**programs, **replaced})


def test_each_size_is_trained_and_keeps_no_counters(own_home: Path, tmp_path: Path) -> None:
    del own_home
    stages: list[str] = []
    source = tarball(tmp_path)
    with Journal() as journal:
        builds = ensure_builds(SPECS, journal, local=source, progress=lambda step: stages.append(step.doing))
        plain, trained = plan_builds([BuildSpec("18"), SPECS[0]], journal, source)
    assert {INSTRUMENTED, TRAINING} <= set(stages)
    for build in builds:
        assert build.manifest["made"] == FROM_SCRATCH and build.manifest["trained"] == training.digest()
        for program in ("postgres", "initdb", "pgbench"):
            assert b".gcda" not in build.program(program).read_bytes()
    assert plain.name != trained.name == builds[0].name


def test_a_server_that_does_not_start_is_said_in_its_words(own_home: Path, tmp_path: Path) -> None:
    del own_home
    broken = '#include <stdio.h>\nint main(void) { puts("FATAL:  no shared memory"); return 1; }\n'
    with Journal() as journal, pytest.raises(OctavoError, match="did not start: FATAL:  no shared memory"):
        ensure_builds(SPECS[:1], journal, local=tarball(tmp_path, postgres=broken))
