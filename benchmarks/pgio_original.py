"""Kevin Closson's PGIO and Octavo's workload pgio, alternately on one server: block hits in shared buffers per second.

    .venv/bin/python -m benchmarks.pgio_original KIT [--pairs 6] [--seconds 8] [--schemas 2] [--scale 256MB]

KIT is the published original (github.com/therealkevinc/pgio): setup.sh, runit.sh and sql/. Each has a database of its
own with equally many schemas of equally many blocks of 8 kB, all in shared buffers, and one session per schema. In
every second pair ours is first. Printed: both rates of each pair and ours / the original's, their median, the cost of a
call of ours that reads no block, and the original's own line.

The original's rate is its blocks between BEFORE and AFTER over RUN_TIME, which its function keeps internally: runit.sh
divides by the shell's whole seconds, 12 % of 8. Needs a build of 8 kB blocks, and the server's account or root.
"""

import argparse
import re
import shutil
import statistics
import sys
from pathlib import Path

from octavo.host import children, trees
from octavo.host.children import PLAIN_PATH, server_account
from octavo.host.journal import Journal
from octavo.plan.model import known_factors
from octavo.postgres.builds import usage
from octavo.postgres.builds.spec import BuildSpec
from octavo.postgres.cluster import DATABASE, Server
from octavo.postgres.scratch import scratch_server
from octavo.units import human_size, parse_size
from octavo.workloads.pgio import Pgio
from octavo.workloads.pgio.figures import HITS

_ITS_DATABASE = "pgio"
_COUNTED = re.compile(r"(?:BEFORE|AFTER): +\w+ *\| *(\d+)")
_CONFIGURATION = """UPDATE_PCT=0
RUN_TIME={seconds}
NUM_SCHEMAS={schemas}
NUM_THREADS=1
WORK_UNIT=255
UPDATE_WORK_UNIT=8
SCALE={scale}M
DBNAME={database}
CONNECT_STRING="{database}"
CREATE_BASE_TABLE=TRUE
"""


def main() -> None:
    """Fills both databases, then measures the pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kit", type=Path)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--schemas", type=int, default=2)
    parser.add_argument("--scale", default="256MB")
    asked = parser.parse_args()
    if missing := [name for name in ("setup.sh", "runit.sh", "sql/pgio.sql") if not (asked.kit / name).is_file()]:
        sys.exit(f"{asked.kit} has no {', '.join(missing)}: it is not the original's kit")
    build = usage.find_cached(BuildSpec("18", "8kB", "8kB"), None)
    if build is None:
        sys.exit("there is no build of 18 with 8kB data blocks: octavo build --data-block 8kB")
    levels = {factor.name: factor.default for factor in known_factors("pgio").values()} | {
        "data_block": "8kB", "schemas": str(asked.schemas), "threads": "1", "scale": asked.scale,
        "duration": f"{asked.seconds}s",
    }  # fmt: skip
    scale = parse_size(asked.scale)
    settings = {
        # Both databases, and the table from which the original copies its schemas.
        "shared_buffers": human_size((2 * asked.schemas + 1) * scale + 256 * 1024**2),
        "autovacuum": "off", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "synchronize_seqscans": "off",
    }  # fmt: skip
    with Journal() as journal, scratch_server(build, journal, server_account(), settings) as server:
        configuration = _CONFIGURATION.format(
            seconds=asked.seconds, schemas=asked.schemas, scale=scale // 1024**2, database=_ITS_DATABASE
        )
        kit = _kit_of(server, asked.kit, configuration)
        with server.connect("postgres") as connection:
            for database in (DATABASE, _ITS_DATABASE):
                connection.execute(f"CREATE DATABASE {database}".encode())
        Pgio().fill(server, levels)
        _script(server, kit, "setup.sh")
        for database in (DATABASE, _ITS_DATABASE):
            with server.connect(database) as connection:
                connection.execute("VACUUM (FREEZE, ANALYZE)")
        _compare(server, kit, levels, asked.pairs)


def _compare(server: Server, kit: Path, levels: dict[str, str], pairs: int) -> None:
    ratios: list[float] = []
    costs: list[float] = []
    line = ""
    print("pair  original, blocks/s  ours, blocks/s  ours / original", flush=True)
    for pair in range(pairs + 1):  # the first is discarded: it warms both
        rates: dict[str, float] = {}
        for which in ("ours", "original") if pair % 2 else ("original", "ours"):
            if which == "ours":
                result = Pgio().run(server, levels, pair)
                rates[which] = next(one.value for one in result.observations if one.metric == HITS.name)
                costs += [one.value for one in Pgio().afterwards(server, levels, result)] if pair else []
                server.disconnect()
            else:
                said = _script(server, kit, "runit.sh")
                before, after = (int(blocks) for blocks in _COUNTED.findall(said))
                rates[which] = (after - before) / int(levels["duration"].removesuffix("s"))
                line = next((one for one in said.splitlines() if one.startswith("DBNAME")), "")
        if pair:
            ratios.append(rates["ours"] / rates["original"])
            print(f"{pair:4}  {rates['original']:18,.0f}  {rates['ours']:14,.0f}  {ratios[-1]:15.2f}", flush=True)
    print(f"ours / original: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    print(f"a call of ours without a block to read: {statistics.median(costs):.2%} of a call")
    print(f"the original's own line, of its last run: {line}")


def _kit_of(server: Server, kit: Path, configuration: str) -> Path:
    """A copy of the kit for the account, which writes its results beside its files; removed with the server."""
    copied = trees.make_for(server.directory.with_name("kit"), server.account)
    lent = trees.make_readable(server.directory.with_name("lent"), server.account)
    for name in ("setup.sh", "runit.sh", "sql"):
        source = kit / name
        if source.is_dir():
            shutil.copytree(source, lent / name)
        else:
            shutil.copy(source, lent / name)
    (lent / "pgio.conf").write_text(configuration)
    arguments = ["cp", "-r", "--", *sorted(lent.iterdir()), copied]
    children.check(
        children.run(arguments, server.journal, role="cp", account=server.account), "copying the kit for the account"
    )
    return copied


def _script(server: Server, kit: Path, name: str) -> str:
    """The output of one of the kit's scripts, run as the server's account with the build's own psql."""
    finished = children.run(
        ["bash", f"./{name}"],
        server.journal,
        role=name,
        account=server.account,
        directory=kit,
        environment={**server.client_environment(), "PATH": f"{server.build.program('psql').parent}:{PLAIN_PATH}"},
    )
    return children.check(finished, name).stdout


if __name__ == "__main__":
    main()
