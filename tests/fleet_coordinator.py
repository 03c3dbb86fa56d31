"""A run over hosts that sleep: python -m tests.fleet_coordinator HOSTS.toml|tls://… ROUNDS [RUN [--retry]]"""

import sys
from pathlib import Path

from tests.sleeping_bench import sleeping
from tests.unit.plans import small_plan

from octavo.errors import OctavoError
from octavo.fleet import runs
from octavo.lab.events import Event, Notice, TrialEnded


def tell(event: Event) -> None:
    """Prints a line for each trial and each notice immediately."""
    if isinstance(event, TrialEnded):
        print("trial", (event.record.facts or {})["host"], event.record.round, event.cell.id, flush=True)
    elif isinstance(event, Notice):
        print(event.text, flush=True)


def main() -> int:
    """Runs or resumes; the last line is the run's id."""
    where = sys.argv[1]
    target = runs.FleetTarget(None, where) if "://" in where else runs.FleetTarget(Path(where), None)
    plan = small_plan().model_copy(update={"rounds": int(sys.argv[2]), "stopping": "fixed"})
    try:
        if len(sys.argv) > 3:
            ended = runs.resume(target, sys.argv[3], None, tell, retry="--retry" in sys.argv, prepare=sleeping)
        else:
            ended = runs.start(target, plan, "", "octavo run", 7, tell, prepare=sleeping)
    except OctavoError as error:
        print(f"octavo: {error}", flush=True)
        return error.exit_code
    print(f"ended {ended.run} {ended.outcome.ending} {ended.outcome.ok}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
