"""The conditions that all sizes of a prediction share."""

import dataclasses
import math
from dataclasses import dataclass

from octavo.predict.assumptions import Assumptions
from octavo.predict.device import Device
from octavo.predict.image_correction import Correction
from octavo.predict.queueing import Throughput
from octavo.predict.rates import Rates
from octavo.predict.recorded import Recorded
from octavo.predict.size import Size


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that all sizes of a prediction share."""

    trace: Recorded
    own: Size
    own_rates: list[Rates]
    """The recorded server as it was."""
    base: Size
    base_rates: list[Rates]
    """The recorded sizes under the conditions of the prediction."""
    device: Device
    recorded_device: Device
    clients: int | None
    cycle: float | None
    images_factor: float = 1.0
    """The factor for the bytes of images at predicted sizes, not of the recorded server: from wal_compression, or a
    changed distance between checkpoints."""
    correction: Correction = dataclasses.field(default_factory=Correction)
    transactions: float | None = None
    """The number of transactions since the last checkpoint to count; None: those of the time between checkpoints."""
    known: "dict[Assumptions, Throughput | None]" = dataclasses.field(init=False, default_factory=dict, compare=False)
    """Cached speeds of the base, with which sizes are compared. Changed conditions (`dataclasses.replace`) start
    empty."""

    def octaves(self, size: Size) -> float:
        """The number of doublings or halvings from the recorded block to this one."""
        return abs(math.log2(size.data_block / self.trace.data_block))

    def since_checkpoint(self, tps: float | None) -> float | None:
        """Transactions of a checkpoint cycle; None without one. If `tps` is None, the recorded rate is used."""
        return self.transactions or (None if self.cycle is None else (tps or self.trace.tps) * self.cycle)
