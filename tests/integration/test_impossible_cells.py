"""A plan refuses exactly the cells that the server refuses, at every data block."""

from tests.integration.servers import data_directory

from octavo.host import children
from octavo.host.children import Account
from octavo.host.journal import Journal
from octavo.plan.cells import make_cells
from octavo.plan.impossible import impossible_cells
from octavo.plan.parse import parse_plan
from octavo.postgres.builds.cache import Build
from octavo.postgres.pinned import pinned_settings

SETTINGS = {
    "temp_buffers": ("99", "100", "800kB", "1MB", "3200kB"),
    "backend_flush_after": ("0", "1MB", "2MB", "8MB", "9MB"),
    "checkpoint_flush_after": ("256", "257"),
    "notify_buffers": ("0", "16", "17", "128kB", "264kB", "512kB", "1GB", "2GB"),
    "transaction_buffers": ("0", "100kB", "1MB"),
    "io_combine_limit": ("0", "1", "128", "129", "512kB", "1MB", "4MB"),
    "debug_io_direct": ("", "data", "data, wal"),
    "wal_buffers": ("-1", "1MB", "4GB"),
}
SHARED_BUFFERS = ("64kB", "128kB", "256kB", "512kB", "1TB")

TEXT = """
name = "edges"
question = "Which of these can exist?"
workload = "pgbench"
[baseline]
data_block = "{block}"
[factors]
data_block = "{block}"
shared_buffers = "{buffers}"
[settings]
{settings}
"""


def test_what_is_refused_is_what_the_server_refuses(build: Build, journal: Journal, account: Account) -> None:
    block = build.manifest["data_block"]
    cases = [({name: value}, "128MB") for name, values in SETTINGS.items() for value in values]
    cases += [({}, buffers) for buffers in SHARED_BUFFERS]
    differing: list[str] = []
    refused = 0
    with data_directory(build, journal, account) as directory:
        for settings, buffers in cases:
            if "io_combine_limit" in settings:  # raised together, otherwise the server lowers it silently
                settings["io_max_combine_limit"] = settings["io_combine_limit"]
            table = "\n".join(f'{name} = "{value}"' for name, value in settings.items())
            plan = parse_plan(TEXT.format(block=block, buffers=buffers, settings=table), origin="edges")
            found = impossible_cells(plan, make_cells(plan))
            everything = {**pinned_settings("18", block), **settings, "shared_buffers": buffers}
            options = [word for name, value in everything.items() for word in ("-c", f"{name}={value}")]
            asked = children.run(
                [build.program("postgres"), "-D", directory, *options, "-C", "shared_buffers"],
                journal, role="postgres -C", account=account,
            )  # fmt: skip
            refused += asked.returncode != 0
            if bool(found) != (asked.returncode != 0):
                differing.append(f"{settings} {buffers}: {[each.reason for each in found]}, {asked.stderr}")
    assert differing == []
    assert 0 < refused < len(cases)
