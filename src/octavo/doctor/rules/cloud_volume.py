"""A known cloud volume at its limit on throughput or requests."""

from dataclasses import dataclass

from octavo.doctor.amounts import percent
from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.doctor.volumes import Cloud, VolumeKind, cloud_of
from octavo.units import human_duration, human_size

# The limiter lets a little more through: the article observed 3,287 to 3,600 requests per second with a limit of 3,000.
_NEAR, _OVER = 0.95, 1.2
_BUSY, _LARGE = 0.90, 32 * 1024


@dataclass(frozen=True, slots=True)
class _Limit:
    kind: VolumeKind
    rate: float
    bursts: bool


def _judge(asked: RuleFacts) -> Ok | Finding:
    cloud, size = _cloud(asked), asked.whole("host.device.size_bytes")
    if len(asked.words_or_none("host.device.disks") or [""]) > 1:
        raise NotApplicableError("the filesystem is on several volumes, which are not observed individually")
    requests = asked.number("live.device.reads_per_second") + asked.number("live.device.writes_per_second")
    served = asked.number("live.device.read_bytes_per_second") + asked.number("live.device.written_bytes_per_second")
    busy = asked.number("live.device.busy_share")
    each = served / requests if requests else 0.0
    seen = (
        f"{cloud.name} of {human_size(size)}: {requests:,.0f} requests/s, {human_size(served)}/s, busy {percent(busy)} "
        "of the time"
    )
    if busy < _BUSY:
        return Ok(seen)
    if each >= _LARGE and (limits := _met(cloud, served, "bytes_per_second", 1.02)):
        return _by_throughput(asked, cloud, f"{seen}, {human_size(each)} a request", limits, each)
    if limits := _met(cloud, requests, "requests", 1.05):
        return _by_requests(cloud, seen, limits, requests)
    return Ok(f"{seen}; at none of the limits of {' or '.join(kind.name for kind in cloud.kinds)}")


def _cloud(asked: RuleFacts) -> Cloud:
    platform, vendor = asked.text_or_none("host.platform"), asked.text_or_none("host.device.vendor") or ""
    model = asked.text("host.device.model")
    found = cloud_of(platform, vendor, model, asked.whole("host.device.size_bytes"))
    if found is None:
        raise NotApplicableError("the disk's model is not that of a supported cloud volume")
    return found


def _met(cloud: Cloud, rate: float, what: str, over: float) -> list[_Limit]:
    """The kinds whose limit is this rate. A burst may exceed its limit a little."""
    found: list[_Limit] = []
    for kind in cloud.kinds:
        steady, burst = getattr(kind, what), getattr(kind, f"burst_{what}")
        if _NEAR * steady <= rate <= over * steady:
            found.append(_Limit(kind, steady, bursts=False))
        elif burst > steady and _NEAR * burst <= rate <= _OVER * burst:
            found.append(_Limit(kind, burst, bursts=True))
    return found


def _more(limits: list[_Limit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.kind.more for one in limits))


def _by_throughput(asked: RuleFacts, cloud: Cloud, seen: str, limits: list[_Limit], each: float) -> Finding:
    block, limit = asked.whole("setting.block_size"), limits[0].rate
    kinds = " or ".join(
        f"{one.kind.name} gives {human_size(one.rate)}/s"
        + (
            f" while it bursts, then {human_size(one.kind.bytes_for_good)}/s"
            if one.kind.bytes_for_good < one.rate
            else ""
        )
        for one in limits
    )
    return Finding(
        "warning",
        seen,
        f"limited by throughput, not by IOPS: {kinds}; that is {limit / each:,.0f} requests/s of this size, and would "
        f"be {limit / block:,.0f} of {human_size(block)}",
        _more(limits),
        "now",
        cloud.shows,
    )


def _by_requests(cloud: Cloud, seen: str, limits: list[_Limit], requests: float) -> Finding:
    kinds = " or ".join(
        f"{one.kind.name} gives {one.rate:,.0f}/s"
        + (
            f" while it bursts (a full bucket lasts {human_duration(one.kind.lasts(requests))}), then "
            f"{one.kind.requests:,.0f}/s"
            if one.bursts
            else ""
        )
        for one in limits
    )
    return Finding("warning", seen, f"limited by IOPS: {kinds}", _more(limits), "now", cloud.shows)


RULE = DoctorRule(
    "cloud-volume",
    "Is the cloud volume at its limit of throughput or IOPS?",
    "an Amazon, Azure or Google volume is busy 90 % of the time, and reaches a limit of a volume type of its size: "
    "bytes per second in requests of 32 kB and more, or requests per second",
    "Franck Pachot, PostgreSQL on ARM (2022): 205 MB/s in 64 kB reads where gp2 gives 250 MB/s, and burst balance; "
    "Amazon EBS volume types; Azure managed disk types and Managed disk bursting; Google Cloud, Persistent Disk "
    "performance",
    _judge,
    volumes=("tables", "WAL"),
)
