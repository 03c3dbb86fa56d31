"""The experiments that `statistical_validity` simulates: hosts, loads and effects."""

import functools
from dataclasses import dataclass

# Equal, within the threshold, just beyond it, and large: as fractions.
MIXTURE = (0.0, 0.0, 0.0, 0.025, -0.025, 0.035, -0.035, 0.08, -0.08, 0.15)
QUICK = (0.0, 0.04, -0.04, 0.1, -0.1)


@dataclass(frozen=True, slots=True)
class Slices:
    """A round in slices. The logarithm of each slice's rate has independent noise (`fast`, a standard deviation) and
    correlated noise (`slow`, with autocorrelation exp(-1 / `fades`) from slice to slice); the preceding slice moves it
    by up to `carry`: nothing after the baseline and its control, all of it after the others."""

    turns: int = 160
    fast: float = 0.05
    slow: float = 0.2
    fades: float = 10.0
    carry: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The effects of the simulated host and loads on the logarithm of a trial. `cells` counts the baseline, not the
    control.

    Deviations are fractions: of a trial, of a load. `trend` and `walk` are the size of the drift over ten full rounds,
    on a straight line and as the deviation of a random walk; `memory` is the autocorrelation of successive trials,
    `outliers` the share of trials that are slower by 10 % on average, `missing` the share of invalid trials, `noisy`
    how many times more the second cell scatters, `conditions` the number of conditions of the run: this is one of them,
    and in the others nothing differs; or all of them are simulated, `together`. `unaffected`: the share of conditions
    in which all cells are equal, whatever the `effects`.
    """

    name: str
    cells: int
    effects: tuple[float, ...]
    residual: float = 0.01
    load: float = 0.005
    walk: float = 0.0
    trend: float = 0.0
    memory: float = 0.0
    outliers: float = 0.0
    missing: float = 0.0
    noisy: float = 1.0
    loads: int = 8
    rounds: int = 24
    conditions: int = 1
    together: bool = False
    unaffected: float = 0.0
    slices: Slices | None = None


def scenarios() -> list[Scenario]:
    """Two to 42 cells, equal and not, on a quiet host and on one with all disturbances at once; quick runs, whose
    trials are precise and few; then one disturbance each."""
    quiet = functools.partial(Scenario)
    everything = functools.partial(Scenario, walk=0.1, trend=0.5, memory=0.5, outliers=0.01)
    found = [
        host(f"{kind}, {word}", cells, effects)
        for cells in (2, 6, 42)
        for kind, effects in (("A/A", (0.0,)), ("mixture", MIXTURE))
        for word, host in (("quiet", quiet), ("everything", everything))
    ]
    one = functools.partial(Scenario, cells=6, effects=MIXTURE)
    quick = functools.partial(Scenario, residual=0.007, load=0.005, loads=6, rounds=10, conditions=3)
    short = functools.partial(Scenario, "quick, 4 loads", residual=0.007, load=0.005, loads=4, rounds=6)
    slices = functools.partial(Scenario, cells=2, residual=0.0, load=0.005, loads=6, rounds=10, conditions=3)
    many = functools.partial(Scenario, cells=6, loads=5, rounds=10, conditions=9, together=True)
    return [
        *found,
        quick("quick, A/A", cells=2, effects=(0.0,)),
        quick("quick, 4 %", cells=2, effects=(0.04, -0.04)),
        quick("quick, 10 %", cells=2, effects=(0.1, -0.1)),
        quick("quick, mixture", cells=3, effects=QUICK),
        short(cells=2, effects=QUICK),
        short(cells=3, effects=QUICK),
        slices("slices, A/A", effects=(0.0,), slices=Slices()),
        slices("slices, mixture", effects=QUICK, slices=Slices()),
        slices("slices, slow noise", effects=QUICK, slices=Slices(slow=0.3, fades=100.0)),
        slices("slices, carry-over 1 %", effects=QUICK, slices=Slices(carry=0.01)),
        many("nine conditions, A/A", effects=(0.0,)),
        many("nine conditions, half A/A", effects=MIXTURE, unaffected=0.5),
        many("nine conditions, mixture", effects=MIXTURE),
        one("strong drift", walk=0.2, trend=1.0),
        one("autocorrelation 0.9", memory=0.9),
        one("3 % outliers", outliers=0.03),
        one("loads differ by 2 %", load=0.02),
        one("loads do not differ", load=0.0),
        one("two loads: conditional", cells=3, loads=2),
        one("10 % invalid trials", missing=0.1),
        one("one noisy cell", noisy=4.0),
    ]
