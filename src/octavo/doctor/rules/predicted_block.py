"""The result of `octavo predict` for a trace of this server."""

import shlex

from octavo.doctor.engine import DoctorRule, Finding, Ok
from octavo.doctor.facts import NotApplicableError, RuleFacts, UnknownError
from octavo.text import one_line
from octavo.units import format_size, human_size


def _judge(asked: RuleFacts) -> Ok | Finding:
    if not asked.has("predict.is_settled"):
        raise NotApplicableError("no trace was given: octavo doctor --predict t.octrace")
    own, recorded = asked.whole("setting.block_size"), asked.whole("predict.recorded_block_bytes")
    if own != recorded:
        raise UnknownError(
            f"the trace is of a server with {human_size(recorded)} data blocks, and this one has {human_size(own)}"
        )
    sentence = one_line(asked.text("predict.sentence"))
    if not asked.flag("predict.is_settled"):
        return Ok(sentence)
    block = format_size(asked.whole("predict.block_bytes"))
    return Finding(
        "note",
        sentence,
        one_line(asked.text("predict.cost")),
        (
            f"octavo build --data-block {block} --check-operations",
            f"# then docs/switching.md: dump and restore to {block}",
        ),
        "dump and restore",
        f"octavo predict {shlex.quote(one_line(asked.text('predict.trace')))}",
    )


RULE = DoctorRule(
    "predicted-block",
    "Would another data block be faster for this server's workload?",
    "a trace was given (--predict), and another data block is predicted to gain 5 % or more, with an interval above "
    "zero",
    "octavo predict, docs/predict.md; the preset predict-check measures it",
    _judge,
    ("data block",),
)
