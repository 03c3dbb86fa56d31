"""pg_checksums: every block checked, a damaged one found, checksums switched off and on again."""

import os
import re
from pathlib import Path

from octavo.errors import OctavoError
from octavo.host import children, trees
from octavo.host.children import Account
from octavo.host.kernel_text import shown
from octavo.operations.base import Operation, OperationEvidence
from octavo.operations.program_output import last_line
from octavo.operations.sandbox import Sandbox, first
from octavo.units import parse_size


def _check(sandbox: Sandbox) -> OperationEvidence:
    data = sandbox.copy("data")
    blocks = blocks_checked(sandbox, data)
    for switch in ("--disable", "--enable"):
        children.check(
            sandbox.run(sandbox.build, "pg_checksums", switch, "--no-sync", "--pgdata", data), f"pg_checksums {switch}"
        )
    blocks_checked(sandbox, data)
    path = _file_of_accounts(sandbox)
    damage(data, path, 3 * parse_size(sandbox.build.manifest["data_block"]), sandbox.account)
    finished = sandbox.run(sandbox.build, "pg_checksums", "--check", "--pgdata", data)
    found = re.search(r"checksum verification failed in file .*", finished.stderr)
    if finished.returncode == 0 or found is None:
        raise OctavoError(f"pg_checksums did not find the damaged block 3 of {shown(path)}: {last_line(finished)}")
    return OperationEvidence(
        f"{blocks:,} blocks checked; off, on and checked again; one byte damaged in block 3 of a table: found",
        {"blocks": blocks},
    )


def blocks_checked(sandbox: Sandbox, data: Path) -> int:
    """How many blocks of a data directory `pg_checksums --check` found good. Raises OctavoError when one is bad."""
    finished = sandbox.run(sandbox.build, "pg_checksums", "--check", "--pgdata", data)
    if bad := re.search(r"checksum verification failed in file .*", finished.stderr):
        raise OctavoError(f"pg_checksums: {bad[0]}")
    children.check(finished, "pg_checksums")
    blocks = re.search(r"Blocks scanned:\s+(\d{1,18})\b", finished.stdout, re.ASCII)
    if blocks is None:
        raise OctavoError(f"pg_checksums did not say how many blocks it checked: {last_line(finished)}")
    return int(blocks[1])


def damage(data: Path, path: str, offset: int, account: Account) -> None:
    """Flips the bits of one byte of a file of the account's below its data directory, some way into the block at the
    offset.

    Raises OctavoError as `trees.open_own_file` does: a server may name any file.
    """
    with os.fdopen(trees.open_own_file(data, path, account, os.O_RDWR), "r+b") as file:
        file.seek(offset + 500)
        byte = file.read(1)
        if not byte:
            raise OctavoError(f"{shown(path)} has no byte at {offset + 500}")
        file.seek(offset + 500)
        file.write(bytes([byte[0] ^ 0xFF]))


def _file_of_accounts(sandbox: Sandbox) -> str:
    """The table's first file; a copy of its own is asked, so that the one that is damaged stays shut down."""
    with sandbox.serve(sandbox.copy("asked")) as server:
        return str(first(server, "SELECT pg_relation_filepath('pgbench_accounts')"))


OPERATION = Operation("pg_checksums", _check)
