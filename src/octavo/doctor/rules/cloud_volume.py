"""A cloud volume that is recognised, and at the limit of its throughput or its requests."""

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts
from octavo.units import human_duration, human_size

_MIB, _GIB = 1024**2, 1024**3
_EBS = "Amazon Elastic Block Store"
# Amazon's documentation of EBS volume types: gp2 has 3 IOPS a GiB, at least 100, bursts to 3,000 from a bucket of 5.4
# million requests; 250 MiB/s at most. gp3 has 3,000 IOPS and 125 MiB/s unless more is bought.
_GP2_EACH, _GP2_LEAST, _GP2_BURST, _GP2_BUCKET = 3, 100, 3000, 5_400_000
_GP2_BURSTS_BELOW = 1000 * _GIB
_THROUGHPUTS = (125 * _MIB, 250 * _MIB)
_NEAR, _LARGE = 0.95, 32 * 1024
# A bucket lets a little more through for a while: the article saw 3,287 to 3,600 requests a second.
_OVER = 1.2


def _judge(asked: RuleFacts) -> Ok | Finding:
    if _EBS not in asked.text("host.device.model"):
        raise NotApplicableError("the disk's model is none of a cloud volume that is known here")
    size = asked.whole("host.device.size_bytes")
    requests = asked.number("live.device.reads_per_second") + asked.number("live.device.writes_per_second")
    served = asked.number("live.device.read_bytes_per_second") + asked.number("live.device.written_bytes_per_second")
    seen = f"EBS volume of {human_size(size)}: {requests:,.0f} requests/s, {human_size(served)}/s"
    each = served / requests if requests else 0.0
    limit = next((one for one in _THROUGHPUTS if one * _NEAR <= served <= one * 1.02), None)
    if limit is not None and each >= _LARGE:
        return Finding(
            "warning",
            f"{seen}, {human_size(each)} a request",
            f"the volume is bound by throughput ({human_size(limit)}/s), not by requests: at 8 kB a request the same "
            f"throughput is {limit // 8192:,} requests/s",
            ("octavo doctor --explain kernel-page", "aws ec2 modify-volume --volume-id VOLUME --throughput 500"),
            "now",
            "iostat -xm 10   # rareq-sz, rMB/s",
        )
    baseline = max(_GP2_LEAST, _GP2_EACH * (size // _GIB))
    if size < _GP2_BURSTS_BELOW and baseline * 1.05 < requests <= _GP2_BURST * _OVER:
        lasts = human_duration(_GP2_BUCKET / (requests - baseline))
        return Finding(
            "note",
            seen,
            f"if it is a gp2 volume, it bursts: {baseline:,} requests/s are its own, and a full bucket lasts {lasts}",
            ("aws ec2 modify-volume --volume-id VOLUME --volume-type gp3",),
            "now",
            "aws cloudwatch get-metric-statistics --namespace AWS/EBS --metric-name BurstBalance …",
        )
    return Ok(seen)


RULE = DoctorRule(
    "cloud-volume",
    "Is the volume at a limit, and at which?",
    "a known cloud volume serves its throughput limit in large requests, or more requests than its type sustains",
    "Franck Pachot, PostgreSQL on ARM (2022): 205 MB/s in 64 kB reads where gp2 gives 250 MB/s, and burst balance; "
    "Amazon EBS volume types",
    _judge,
)
