"""pg_upgrade within a major version, from an older one, and from another block size, which it refuses."""

import time

from octavo.errors import OctavoError
from octavo.host import children
from octavo.operations import contents
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.program_output import last_line
from octavo.operations.related_builds import described
from octavo.operations.sandbox import Sandbox
from octavo.postgres.builds.cache import Build


def _check_same_major(sandbox: Sandbox) -> OperationEvidence:
    old = sandbox.related_builds.same_major
    if old is None:
        return _upgrade(sandbox, sandbox.build, "from this very build, the only one of this major version and size")
    return _upgrade(sandbox, old, f"from {described(old)}")


def _check_older_major(sandbox: Sandbox) -> OperationEvidence:
    old = sandbox.related_builds.need_older_major()
    return _upgrade(sandbox, old, f"from {described(old)}")


def _upgrade(sandbox: Sandbox, old: Build, origin: str) -> OperationEvidence:
    filled = sandbox.filled(old)
    old_data, new_data = sandbox.copy("old", old), sandbox.empty("new")
    started = time.monotonic()
    finished = sandbox.run_upgrade(old, old_data, new_data, "--jobs=2")
    seconds = time.monotonic() - started
    if finished.returncode != 0:
        raise OctavoError(f"pg_upgrade {origin} failed: {last_line(finished)}")
    with sandbox.serve(new_data) as server:
        children.check(server.run_client("vacuumdb", "--all", "--analyze-only", "--quiet"), "vacuumdb")
        same = contents.check_same(filled.contents, contents.read(server), "the upgraded server")
        contents.write(server, 200)
    return OperationEvidence(f"{origin}, files copied in {seconds:.1f} s: {same}", {"upgrade_seconds": seconds})


def _check_update(sandbox: Sandbox) -> OperationEvidence:
    old = sandbox.related_builds.need_same_major()
    data = sandbox.copy("data", old)
    with sandbox.serve(data, old) as server:
        contents.write(server, 200)
        expected = contents.read(server)
        server.shut_down()
    with sandbox.serve(data) as server:
        same = contents.check_same(expected, contents.read(server), "the server with the new programs")
        contents.write(server, 200)
    return OperationEvidence(f"the data directory of {described(old)} served by this one: {same}")


def _check_refused(sandbox: Sandbox) -> OperationEvidence:
    other = sandbox.related_builds.need_another_data_block()
    old_data, new_data = sandbox.empty("old", other), sandbox.empty("new")
    finished = sandbox.run_upgrade(other, old_data, new_data, "--check")
    text = last_line(finished)
    if finished.returncode == 0:
        raise OctavoError(f"pg_upgrade accepts a cluster of {other.manifest['data_block']} data blocks: {text}")
    if "block sizes" not in text:
        raise OctavoError(f"pg_upgrade refuses {other.manifest['data_block']} data blocks for another reason: {text}")
    return OperationEvidence(f"from {other.manifest['data_block']} data blocks: {text}")


SAME_MAJOR = Operation("pg_upgrade, same major version", _check_same_major)
OLDER_MAJOR = Operation("pg_upgrade, older major version", _check_older_major)
NEW_PROGRAMS = Operation("minor update", _check_update)
OF_ANOTHER_DATA_BLOCK = Operation("pg_upgrade, another data block", _check_refused)
