"""psql's result tables in the output of a statement."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_RULE = re.compile(r"-[-+]*")
_FOOTER = re.compile(r"\(\d+ rows?\)")


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A result as psql aligns it; a row may span lines (psql ends all of its lines but the last with `+`)."""

    header: str
    rule: str
    rows: tuple[str, ...]
    footer: str

    def multiset(self) -> Counter[tuple[str, ...]]:
        """The rows without their order."""
        grouped: list[tuple[str, ...]] = []
        lines: list[str] = []
        for line in self.rows:
            lines.append(line)
            if not line.rstrip().endswith("+"):
                grouped.append(tuple(lines))
                lines = []
        if lines:
            grouped.append(tuple(lines))
        return Counter(grouped)


def parse(output: Sequence[str]) -> list[ResultTable | str]:
    """The tables and the other lines of an output, in order."""
    items: list[ResultTable | str] = []
    place = 0
    while place < len(output):
        table = _table_at(output, place)
        if table is None:
            items.append(output[place])
            place += 1
        else:
            items.append(table)
            place += 3 + len(table.rows)
    return items


def _table_at(output: Sequence[str], place: int) -> ResultTable | None:
    if place + 2 >= len(output) or not _RULE.fullmatch(output[place + 1]):
        return None
    for end in range(place + 2, len(output)):
        if _FOOTER.fullmatch(output[end]):
            return ResultTable(output[place], output[place + 1], tuple(output[place + 2 : end]), output[end])
        if not output[end]:  # a table without a footer, or none at all
            return None
    return None
