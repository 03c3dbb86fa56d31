"""What is the same for all sizes of a prediction."""

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
    """What is the same for all sizes of a prediction."""

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
    """Of images' bytes: wal_compression, or another distance between checkpoints."""
    correction: Correction = dataclasses.field(default_factory=Correction)
    transactions: float | None = None
    """Since the last checkpoint, of which counts are; None: as many as there are in the time between checkpoints."""
    known: "dict[Assumptions, Throughput | None]" = dataclasses.field(init=False, default_factory=dict, compare=False)
    """Speeds of the base, with which sizes are compared. Other conditions (`dataclasses.replace`) have their own."""

    def octaves(self, size: Size) -> float:
        """How many doublings it is from the recorded block."""
        return abs(math.log2(size.data_block / self.trace.data_block))

    def since_checkpoint(self, tps: float | None) -> float | None:
        """Transactions of a checkpoint cycle; None where there is none. `tps` None: as many a second as recorded."""
        return self.transactions or (None if self.cycle is None else (tps or self.trace.tps) * self.cycle)
