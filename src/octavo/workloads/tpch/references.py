"""What is right: reference answers where there are some, else what the first cell gave."""

from collections.abc import Sequence
from dataclasses import dataclass

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server
from octavo.workloads.tpch import answers, orders_by_customer
from octavo.workloads.tpch.answers import Row
from octavo.workloads.tpch.duckdb_tpch import ORDERED_BY, RANDOM_TEXT, known

_COUNTS_COMMENTS = 13
# The first result of each query at a scale, by scale factor and query, and its order: what no reference covers is
# compared with it.
_first: dict[tuple[str, int], tuple[str, str]] = {}


@dataclass(frozen=True, slots=True)
class References:
    """The reference answers at a scale factor; without any (None) only cells are compared with each other."""

    scale: str
    of_query_13: Sequence[Row] | None

    def check(self, number: int, rows: Sequence[Row], where: str) -> str:
        """The identity of a result that is right. `where` says whose it is.

        Raises OctavoError when it is not the reference answer, or not what another cell gave in this process.
        """
        what = f"q{number} at scale factor {self.scale}"
        reference = known().answer(float(self.scale), number)
        if number == _COUNTS_COMMENTS:
            reference = self.of_query_13
        ordered_by = ORDERED_BY.get(number, ())
        if reference is not None:
            answers.check(rows, reference, what, RANDOM_TEXT.get(number, ()), ordered_by)
        digest, order = answers.digest(rows), answers.digest_in_order(answers.keys(rows, ordered_by))
        first, its_order = _first.setdefault((self.scale, number), (digest, order))
        if digest != first:
            raise OctavoError(f"{what}: wrong result: it differs at {where} from another cell's result")
        if order != its_order:
            raise OctavoError(f"{what}: wrong order of rows: it differs at {where} from another cell's result")
        return digest


def references(server: Server, scale: str) -> References:
    """Those of a scale factor, computed or read now, so that nothing of it falls into the measured time.

    Raises HostError or OctavoError when they cannot be had.
    """
    has_answers = float(scale) in known().answers
    return References(scale, orders_by_customer.answer(server, scale) if has_answers else None)
