"""`octavo shell`: a scratch server of a build, and psql on it."""

from typing import Annotated

import typer

from octavo.cli.build_cache import DataBlock, Name, Version, WalBlock, checked_spec


def shell(
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments for psql, after --.", metavar="PSQL")] = None,
    data_block: DataBlock = "8kB",
    wal_block: WalBlock = "8kB",
    pg: Version = "18",
    name: Name = None,
    # As large as the factor `scale` of pgbench may be.
    scale: Annotated[int, typer.Option(help="Load pgbench's tables at this scale; 0: none.", min=0, max=1_000_000)] = 0,
    setting: Annotated[
        list[str] | None, typer.Option("-c", "--setting", help="Setting for the server; repeatable.")
    ] = None,
) -> None:
    """Start a scratch server with any block size, and psql on it.

    Everything is removed when psql exits. PostgreSQL is built if needed. Settings are PostgreSQL's defaults.

    \b
    Examples:
    octavo shell --data-block 4kB --scale 10
    octavo shell --data-block 4kB -- -c 'show block_size'
    """
    import sys

    from octavo.host.children import server_account
    from octavo.host.journal import Journal
    from octavo.postgres.builds import usage
    from octavo.postgres.scratch import fill_with_pgbench, parse_settings, run_psql, scratch_server

    spec = checked_spec(data_block, wal_block, pg, name)
    settings = parse_settings(setting or [])
    account = server_account()
    with Journal() as journal:
        if found := usage.find_cached(spec, name):
            build = found
        else:
            # Not before: what they import takes longer than to start the server.
            from octavo.cli.progress import build_progress
            from octavo.postgres.builds.make import ensure_build

            with build_progress() as progress:
                build = ensure_build(
                    spec,
                    journal,
                    progress=progress,
                    waiting=lambda: print("waiting for another process that is making this build", file=sys.stderr),
                )
        usage.note_use(build)
        with scratch_server(build, journal, account, settings) as server:
            if scale:
                fill_with_pgbench(server, scale)
            print(
                f"PostgreSQL {build.manifest['version']}, data block {build.manifest['data_block']}, "
                f"WAL block {build.manifest['wal_block']}, at host={server.socket_directory} user=octavo; "
                "all of it is removed when psql exits",
                file=sys.stderr,
                flush=True,
            )
            code = run_psql(server, arguments or [])
    raise typer.Exit(code)
