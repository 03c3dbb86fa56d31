"""A sweep: every policy in every state of the page cache, one after the other, as one document."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from octavo.errors import OctavoError, UsageError
from octavo.io.engine import Observe, UnsupportedPolicyError, measure
from octavo.io.job import Job
from octavo.io.policies import Policy
from octavo.io.target import MOSTLY_ALLOCATED, allocated_share

if TYPE_CHECKING:
    from octavo._core import IoOutcome

# A run of blocks is a request whatever --max-request says, up to this many bytes.
_LONGEST_RUN = 32 * 1024**2
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999, "min": 0.0, "max": 1.0}
# Of a cold start, this share of the files may be cached after all before it is said.
_STILL_COLD = 0.01
_ALL_WARM = 0.99
# Of what is read past the page cache, or into an empty one, the device delivers all: this share at least.
_FROM_DEVICE = 0.5


class RefusedError(UsageError):
    """This policy cannot do what is asked; another may."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep: the job without its policy, the policies, and the states of the page cache."""

    job: Job
    policies: Sequence[Policy]
    caches: Sequence[str]
    max_request: int

    def jobs(self) -> list[tuple[Policy, Job]]:
        """Each measurement, in order."""
        return [(policy, self._job(policy, cache)) for cache in self.caches for policy in self.policies]

    def _job(self, policy: Policy, cache: str) -> Job:
        longest = max(_LONGEST_RUN, self.job.block) if policy.joining == "run" else self.max_request
        hole = 0 if self.job.write else self.job.hole
        return dataclasses.replace(
            self.job,
            joining=policy.joining,
            method=policy.method,
            cache=cache,
            most=longest // self.job.block,
            hole=hole,
        )


def run_sweep(
    sweep: Sweep, begin: Callable[[Policy, Job], Observe], facts: dict[str, Any], results: list[dict[str, Any]]
) -> dict[str, Any]:
    """Measures and fills `results` one by one, so that an interrupted sweep has the finished ones.

    `begin` is called with the next measurement and returns its observer. A policy that is impossible with the other
    options, or that this kernel lacks, is skipped with the reason if there are others; alone, its error is raised.
    Errors of all policies, such as a path, are raised too.
    """
    wrong: UsageError | None = None
    for policy, job in sweep.jobs():
        try:
            if (refusal := policy.refusal(write=job.write, direct=job.direct)) is not None:
                raise RefusedError(refusal)
            outcome = measure(job, begin(policy, job))
        except (UnsupportedPolicyError, UsageError) as error:
            if len(sweep.policies) == 1:
                raise
            if isinstance(error, UsageError) and not isinstance(error, RefusedError):
                wrong = wrong or error
            results.append({"policy": policy.name, "cache": _state(job), "status": "skipped", "reason": str(error)})
        else:
            results.append(_result(policy, job, outcome))
    if wrong is not None and all(result["status"] == "skipped" for result in results):
        raise wrong
    return document(sweep, facts, results)


def document(sweep: Sweep, facts: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """The sweep as programs read it (docs/io.md)."""
    job = sweep.job
    return {
        "schema_version": 1,
        "files": [{"path": path, "bytes": _length(path)} for path in job.paths],
        "block_bytes": job.block,
        "pattern": job.pattern,
        "run_blocks": job.run if job.pattern != "list" else None,
        "stride_blocks": job.stride if job.pattern == "strided" else None,
        "max_request_bytes": sweep.max_request,
        "hole_blocks": job.hole,
        "distance": job.distance,
        "depth": job.depth,
        "threads": job.threads,
        "write": job.write,
        "direct": job.direct,
        "verify": job.verify,
        "readahead": job.readahead,
        "seed": job.seed,
        **facts,
        "results": results,
    }


def _length(path: str) -> int | None:
    file = Path(path)
    return file.stat().st_size if file.is_file() else None


def _state(job: Job) -> str:
    return "direct" if job.direct else job.cache


def _result(policy: Policy, job: Job, outcome: "IoOutcome") -> dict[str, Any]:
    if not outcome.requests:
        raise OctavoError("nothing was measured: no request completed in time; use more --seconds")
    seconds, requests = outcome.seconds, outcome.requests
    latency = {name: outcome.latency(quantile) * 1e6 for name, quantile in _QUANTILES.items()}
    return {
        "policy": policy.name,
        "cache": _state(job),
        "status": "ok",
        "seconds": seconds,
        "sync_seconds": outcome.sync_seconds if job.write else None,
        "requests": requests,
        "blocks": outcome.blocks,
        "bytes": outcome.bytes,
        "requests_per_second": requests / seconds,
        "blocks_per_second": outcome.blocks / seconds,
        "bytes_per_second": outcome.blocks * job.block / seconds,
        "bytes_per_request": outcome.bytes / requests,
        "cpu_seconds_per_request": outcome.cpu_seconds / requests,
        "cpu_seconds_per_block": outcome.cpu_seconds / outcome.blocks,
        "latency_us": {"mean": outcome.latency_mean() * 1e6, **latency},
        "device": _device(outcome),
        "cached_share": None if outcome.cached_bytes is None else outcome.cached_bytes / outcome.file_bytes,
        "laps": outcome.laps,
        "notes": _notes(job, outcome),
    }


def _device(outcome: "IoOutcome") -> dict[str, Any] | None:
    if outcome.device is None:
        return None
    reads, read, writes, written = outcome.device
    return {
        "reads": reads,
        "read_bytes": read,
        "bytes_per_read": read / reads if reads else None,
        "writes": writes,
        "written_bytes": written,
        "bytes_per_write": written / writes if writes else None,
    }


def _notes(job: Job, outcome: "IoOutcome") -> list[str]:
    """What would make the number mean something else than it says."""
    notes: list[str] = []
    share = None if outcome.cached_bytes is None else outcome.cached_bytes / outcome.file_bytes
    if share is not None and job.cache == "cold" and share > _STILL_COLD:
        notes.append(
            f"not cold: {share:.0%} of the files stayed in the page cache; another process has them mapped or dirty"
        )
    if share is not None and job.cache == "warm" and share < _ALL_WARM:
        notes.append(f"not warm: only {share:.0%} of the files fit in the page cache")
    if not job.write and (allocated := allocated_share(job.paths)) < MOSTLY_ALLOCATED:
        notes.append(f"{allocated:.0%} of the files is allocated: holes and compressed data need no device")
    if not notes and not job.write and (job.direct or job.cache == "cold") and outcome.device is not None:
        delivered = outcome.device[1] / (outcome.blocks * job.block)
        if delivered < _FROM_DEVICE:
            notes.append(
                f"the device's counters show only {delivered:.0%} of what was read: the file has space that was "
                "reserved and never written (fallocate), which needs no device, or the kernel does not count this "
                "device; compare with a file of --make"
            )
    if outcome.laps > 1 and job.cache == "cold":
        did = "written" if job.write else "read"
        notes.append(f"the files were {did} {outcome.laps} times, cold each time; use a larger file")
    return notes
