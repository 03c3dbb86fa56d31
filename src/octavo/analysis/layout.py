"""One number of one condition as a table: cells by rounds, with the loads that were used."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Layout:
    """The data that the model is fitted to. A column is a round, or a part of one with its own baseline.

    `values`: natural logarithms, cells × columns, NaN without a valid trial. `loads`: the load that the trial used,
    cells × columns, numbered within the cell's dataset. `datasets`: a number for each cell's dataset. `rounds`: the
    round of each column, ascending. `baseline`: the row of the baseline. `groups`: a number for the cells that are
    assumed to scatter alike; None if all are. `hosts`: the number of the host that each column was measured on, each
    with loads of its own; None for a single host.
    """

    values: Floats
    loads: Integers
    datasets: Integers
    rounds: Integers
    baseline: int
    groups: Integers | None = None
    hosts: Integers | None = None

    def until(self, rounds: Integers) -> Self:
        """The same with each cell's trials up to a round only, and without the columns that this leaves empty."""
        kept = int((self.rounds <= rounds.max()).sum())
        values = np.where(self.rounds[:kept] <= rounds[:, None], self.values[:, :kept], np.nan)
        hosts = None if self.hosts is None else self.hosts[:kept]
        return replace(self, values=values, loads=self.loads[:, :kept], rounds=self.rounds[:kept], hosts=hosts)

    def by_host(self) -> list[Self]:
        """A layout for each host; the whole layout if there is one host."""
        if self.hosts is None:
            return [self]
        found: list[Self] = []
        for host in np.unique(self.hosts):
            mine = self.hosts == host
            table = replace(
                self, values=self.values[:, mine], loads=self.loads[:, mine], rounds=self.rounds[mine], hosts=None
            )
            found.append(table)
        return found
