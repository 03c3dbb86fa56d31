"""The contract of every registered workload, instrument and knob: each test is named after a common mistake.

docs/extending.md shows one of each, made from an empty file.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from octavo import knobs
from octavo.errors import UsageError
from octavo.factor import Factor, complete
from octavo.instruments import INSTRUMENTS, OPTIONAL, instruments
from octavo.instruments.base import Instrument, Sampled, UnavailableError
from octavo.instruments.figures import TrialWork, totals
from octavo.instruments.target import Rows, Target
from octavo.knobs.base import Knob, KnobTarget
from octavo.lab.declared_metrics import no_primary, undeclared
from octavo.observation import UNITS, Metric
from octavo.plan.factors import COMMON
from octavo.plan.presets import preset_names
from octavo.workload_support import pgbench_client
from octavo.workloads import WORKLOADS, find
from octavo.workloads.base import CountsBySlices, RunsInTurns, Workload

ROOT = Path(__file__).parents[2]
NONSENSE = ("", "no such level", "-1", "1" * 30, "\0", "a\nb", "../..", "’")


class Asked(dict[str, str]):
    """Levels that record which of them are read."""

    def __init__(self, levels: dict[str, str]) -> None:
        super().__init__(levels)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


@pytest.fixture(params=WORKLOADS)
def workload(request: pytest.FixtureRequest) -> Workload:
    return find(request.param)


@pytest.fixture(params=[*INSTRUMENTS, *OPTIONAL])
def instrument(request: pytest.FixtureRequest) -> Sampled | Instrument:
    return instruments(OPTIONAL)[request.param]


@pytest.fixture(params=knobs.KNOBS)
def knob(request: pytest.FixtureRequest) -> Knob:
    return knobs.all_knobs()[request.param]


def at_defaults(workload: Workload, tmp_path: Path) -> Asked:
    """A level of every factor; factors that are a user's files have no default."""
    archive, script = tmp_path / "a.sql", tmp_path / "s.sql"
    archive.write_text("SELECT 1;\n")
    script.write_text("SELECT 1;\n")
    given = {"archive": str(archive), "script": str(script)}
    # oom refuses to run without a limit.
    return Asked(complete(COMMON, {"memory": "1GB"}) | complete(workload.factors, given))


def figures_of(instrument: Sampled | Instrument) -> Iterator[Metric]:
    if isinstance(instrument, Sampled):
        yield from (figure.metric for figure in instrument.figures)
    else:
        yield from instrument.metrics


def check_metrics(metrics: list[Metric]) -> None:
    assert metrics, "it has no metrics; list what it returns in metrics"
    for metric in metrics:
        units = ", ".join(sorted(UNITS))
        assert metric.unit in UNITS, (
            f"{metric.name}: unknown unit {metric.unit!r}; use one of octavo.observation.UNITS: {units}"
        )
        assert metric.title.strip(), f"{metric.name} has no title; say in a few words what it is"


def check_factor(factor: Factor) -> None:
    assert factor.meaning.strip(), f"{factor.name} has no meaning; say in a few words what it sets"
    for level in NONSENSE:
        try:
            spelled = factor.level(level)
        except UsageError as error:
            assert "\n" not in str(error), f"{factor.name}: the error for the level {level!r} must be one line"
        else:
            assert factor.level(spelled) == spelled, (
                f"{factor.name}: its check returns {spelled!r}, which it does not accept; return what it accepts"
            )


def test_a_workload_says_what_its_numbers_mean(workload: Workload) -> None:
    metrics = list(workload.metrics)
    check_metrics(metrics)
    names = [metric.name for metric in metrics]
    assert len(names) == len(set(names)), f"two of its metrics have the same name ({', '.join(names)}); rename one"
    assert metrics[0].better, f"verdicts are about {names[0]}, the first metric; give it better: 'higher' or 'lower'"


def test_a_workload_declares_what_its_modules_define(workload: Workload) -> None:
    """An undeclared metric fails the trial that returns it."""
    declared = {metric.name for metric in workload.metrics}
    home = type(workload).__module__
    modules = [one for name, one in sys.modules.items() if name == home or name.startswith(f"{home}.")]
    defined = {one.name for module in modules for one in vars(module).values() if isinstance(one, Metric)}
    assert defined <= declared, f"{home} defines metrics that it does not declare: add them to its metrics"


def test_a_workload_in_slices_declares_what_slices_count(workload: Workload) -> None:
    if not isinstance(workload, RunsInTurns):
        return
    counted = pgbench_client.observed(tps=1.0, latency_ms=1.0, transactions=1, latencies_ms=[1.0])
    assert undeclared(workload, counted) is None
    if not isinstance(workload, CountsBySlices):
        assert no_primary(workload, counted, slices=True) is None


def test_a_workloads_factors_are_checked_and_its_own(workload: Workload) -> None:
    names = [factor.name for factor in workload.factors]
    assert len(names) == len(set(names)), f"two of its factors have the same name ({', '.join(names)}); rename one"
    common = {factor.name for factor in COMMON} & set(names)
    assert not common, f"every workload has the factor {', '.join(common)} already; use it, or rename yours"
    for factor in workload.factors:
        check_factor(factor)
        if factor.default:  # a user's files have no default
            assert factor.level(factor.default) == factor.default, (
                f"{factor.name}: its check returns {factor.level(factor.default)!r} for the default "
                f"{factor.default!r}; make that the default"
            )


def test_loads_are_told_apart_by_what_they_depend_on(workload: Workload, tmp_path: Path) -> None:
    """A factor of kind "cluster" that contents leave out makes cells share a load that belongs to another cell; one of
    kind "run" in them makes an unnecessary load."""
    levels = at_defaults(workload, tmp_path)
    contents = workload.contents(levels)
    assert dict(contents).get("workload") in WORKLOADS, 'contents() must begin with ("workload", its name in WORKLOADS)'
    assert all(isinstance(text, str) for pair in contents for text in pair), "contents() must return pairs of strings"
    by_kind = {kind: {one.name for one in workload.factors if one.kind == kind} for kind in ("cluster", "run")}
    missing = ", ".join(by_kind["cluster"] - levels.names)
    assert not missing, f"contents() ignores {missing}, of kind 'cluster'; add it, or make it of kind 'run'"
    needless = ", ".join(by_kind["run"] & dict(contents).keys())
    assert not needless, f"contents() has {needless}, of kind 'run'; leave it out, or make it of kind 'cluster'"


def test_a_workload_can_be_estimated_before_it_exists(workload: Workload, tmp_path: Path) -> None:
    levels = at_defaults(workload, tmp_path)
    size, seconds = workload.database_bytes(levels), workload.seconds_asked(levels)
    assert size > 0, f"database_bytes() is {size}; return about how large a load is (the catalogs alone are 8 MB)"
    assert seconds >= 0, f"seconds_asked() is {seconds}; return how long a measured run is to last, in seconds"


def test_an_instrument_says_what_its_numbers_mean(instrument: Sampled | Instrument) -> None:
    check_metrics(list(figures_of(instrument)))
    if isinstance(instrument, Sampled):
        assert instrument.period > 0, (
            f"its period is {instrument.period}; set seconds, or math.inf to read at the beginning and at the end"
        )


def test_an_instrument_that_cannot_see_says_why(instrument: Sampled | Instrument, tmp_path: Path) -> None:
    """On a kernel without any file, with a server that answers nothing, it is off with a reason, or has no figures."""
    if not isinstance(instrument, Sampled):
        return

    def no_rows(name: str) -> Rows:
        raise UnavailableError(f"the server does not know {name}")

    target = Target(no_rows, 180000, None, None, None, "no directory", "no processes", tmp_path)
    try:
        reader = instrument.open(target)
    except UnavailableError as error:
        assert str(error).strip() and "\n" not in str(error), "UnavailableError must have the reason, in one line"
        return
    with suppress(UnavailableError, OSError):  # the sampler expects these of a reading
        reading = reader.read()
        assert list(totals(instrument.figures, reading, reading, 1.0, TrialWork())) is not None
    reader.close()


def test_a_knob_touches_nothing_by_default(knob: Knob) -> None:
    factor = knob.factor
    check_factor(factor)
    assert factor.kind == "run", f"{factor.name} is of kind {factor.kind!r}; a knob's factor is of kind 'run'"
    assert factor.level(factor.default) == factor.default, f"{factor.name}: its check does not accept the default"


def test_a_knob_that_a_kernel_lacks_is_a_reason_not_an_error(knob: Knob, tmp_path: Path) -> None:
    known = [level for level in _levels(knob.factor) if level != knob.factor.default]
    assert known, f"{knob.factor.name}: name its levels, or an example, in the message of its check for a wrong one"
    reason = knob.cannot(known[0], KnobTarget(tmp_path, tmp_path / "proc", tmp_path / "sys"))
    assert reason is None or (reason.strip() and "\n" not in reason), "cannot() must return None or a one-line reason"


def _levels(factor: Factor) -> list[str]:
    """The levels in its own error message, and a few common ones."""
    try:
        factor.level("\0")
    except UsageError as error:
        named = re.split(r"[ ,;()]+", str(error))
    else:
        named = []
    return [level for level in (*named, "60", "64kB", "64MB", "10%/20%", "4096/10s") if _takes(factor, level)]


def _takes(factor: Factor, level: str) -> bool:
    try:
        factor.level(level)
    except UsageError:
        return False
    return True


@pytest.mark.parametrize(
    ("names", "page", "fix"),
    [
        ([factor.name for factor in COMMON], "docs/plan.md", "run script/doc-tables --write"),
        (
            [factor.name for name in WORKLOADS for factor in find(name).factors],
            "docs/plan.md",
            "run script/doc-tables --write",
        ),
        (
            list(knobs.KNOBS),
            "docs/knobs.md",
            "add '| `NAME` | its levels | what it sets | how it is verified |' to its table",
        ),
        ([*INSTRUMENTS, *OPTIONAL], "docs/instruments.md", "add a section '### NAME (every N s)' with its source"),
        (list(WORKLOADS), "docs/workloads.md", "add '| `NAME` | what it does |' to its table"),
        (preset_names(), "README.md", "add '| `NAME` | its question |' to the table of presets"),
    ],
    ids=["factors", "workloads' factors", "knobs", "instruments", "workloads", "presets"],
)
def test_what_is_registered_is_documented(names: list[str], page: str, fix: str) -> None:
    text = (ROOT / page).read_text()
    missing = [name for name in names if f"`{name}`" not in text and f"### {name} " not in text]
    assert missing == [], f"{page} has nothing about {', '.join(missing)}; {fix}"
