"""Simulates the trace on servers of every size: reads and writes per transaction once caches are warm."""

import os
from collections.abc import Sequence

from octavo import _core
from octavo.predict.after_checkpoint import phase_marks, phases_of
from octavo.predict.counts import at_marks, flat
from octavo.predict.rates import Rates, rates_of
from octavo.predict.recorded import Recorded
from octavo.predict.sampling import Caches, Sample, sample_of
from octavo.predict.size import MARKS, Size, layouts, simulated_server
from octavo.trace.files import Observe, ignore_progress, reading


def chosen_sample(trace: Recorded, sizes: Sequence[Size]) -> Sample:
    """The sample that suffices for simulating these sizes."""
    caches = [
        Caches(
            point.shared_buffers / size.data_block,
            None if point.page_cache is None else float(point.page_cache),
            point.readahead,
        )
        for size in sizes
        for point in (simulated_server(trace, size, "merged", None),)
    ]
    return sample_of(trace, caches)


def simulate(
    trace: Recorded,
    sizes: Sequence[Size],
    cycle: float | None,
    observe: Observe = ignore_progress,
    threads: int = 0,
    sample: Sample | None = None,
) -> dict[Size, list[Rates]]:
    """The rates of every size, one for each layout; without a sample from all pages. Raises UsageError for what cannot
    be simulated, HostError when the trace cannot be read."""
    sample = sample or Sample()
    keys = [(size, layout) for size in dict.fromkeys(sizes) for layout in layouts(trace.data_block, size.data_block)]
    points = [simulated_server(trace, size, layout, cycle) for size, layout in keys]
    first, last = trace.summary["times"] or (0, 1)
    even = [first + (last - first) * step // MARKS for step in range(1, MARKS)]
    around = None if cycle is None or all(size.has_checkpoints for size in sizes) else phase_marks(trace)
    marks = sorted({*even, *(() if around is None else (*around.before, *around.after))})
    with reading(trace.path) as opened:
        _, found = _core.trace_servers(
            opened, trace.data_block, points,
            threads=threads or len(os.sched_getaffinity(0)), observe=observe, marks=marks,
            sample=(sample.replicates, sample.scale),
        )  # fmt: skip
    rates: dict[Size, list[Rates]] = {}
    for place, ((size, layout), point) in enumerate(zip(keys, points, strict=True)):
        parts = found[place * sample.replicates : (place + 1) * sample.replicates]
        counts = [[flat(one, sample.scale) for one in part["series"]] for part in parts]
        phases = None if around is None or size.has_checkpoints else phases_of(counts, marks, around)
        whole = [at_marks(one, marks, even) for one in counts]
        rates.setdefault(size, []).append(rates_of(trace, size, layout, point, whole, cycle, phases))
    return rates
