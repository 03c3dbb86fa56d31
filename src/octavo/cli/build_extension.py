"""`octavo build --with-extension DIR`: builds an extension into every chosen build."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from octavo.host.journal import Journal
    from octavo.postgres.builds.cache import Build


def with_extension(builds: Sequence["Build"], directory: Path, journal: "Journal") -> None:
    """Builds the extension against every build, tests it on a server of each, and prints a line for each.

    Raises OctavoError at the end when it does not work in every one of them, HostError when this host cannot build it.
    """
    from octavo.errors import HostError, OctavoError, UsageError
    from octavo.host.children import server_account
    from octavo.postgres.extension import build_extension, try_extension

    account = server_account()
    failed = 0
    for build in builds:
        try:
            made = build_extension(build, directory, journal)
            problem = try_extension(made, journal, account)
        except (HostError, UsageError):
            raise
        except OctavoError as error:
            made, problem = None, str(error)
        if made is None or problem:
            failed += 1
            print(f"{build.name}: {problem}", flush=True)
            continue
        what = " ".join(part for part in (made.name, made.record["version"]) if part)
        how = "cached" if made.cached else f"built in {made.seconds:.1f} s"
        statement = "CREATE EXTENSION" if made.record["extensions"] else "LOAD"
        print(f"{build.name}: {what}, {len(made.record['files'])} files, {how}; {statement} works", flush=True)
    if failed:
        raise OctavoError(
            f"{directory.name} does not work in {failed} of {len(builds)} builds; the lines above say why"
        )
