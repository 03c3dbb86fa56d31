"""The expected results: reference answers where they exist, else the results of the first trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from octavo.errors import OctavoError
from octavo.postgres.cluster import Server
from octavo.workloads.tpch import answers, orders_by_customer
from octavo.workloads.tpch.answers import Row
from octavo.workloads.tpch.duckdb_tpch import ORDERED_BY, QUERIES, RANDOM_TEXT, known

_COUNTS_COMMENTS = 13
# The first result of each query, by scale factor and query, and its order, which trials of an earlier Octavo did not
# store. Queries without a reference answer are compared with it.
_first: dict[tuple[str, int], tuple[str, str]] = {}
_BETWEEN = "/"


@dataclass(frozen=True, slots=True)
class References:
    """The reference answers at a scale factor. Without any (None) cells are only compared with each other."""

    scale: str
    of_query_13: Sequence[Row] | None

    def check(self, number: int, rows: Sequence[Row], where: str) -> str:
        """The digests of a correct result for the trial's facts: of its rows, and of their order. `where` describes the
        query.

        Raises OctavoError if it differs from the reference answer, or from another trial's result.
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
            raise OctavoError(f"{what}: wrong result: it differs at {where} from an earlier trial's result")
        if not its_order:
            _first[self.scale, number] = first, order
        elif order != its_order:
            raise OctavoError(f"{what}: wrong order of rows: it differs at {where} from an earlier trial's result")
        return f"{digest}{_BETWEEN}{order}"


def recall(scale: str, results: Mapping[str, str]) -> None:
    """Records the identities of an earlier trial's results, by item (`q1`). The first one of a query counts."""
    for number in QUERIES:
        if (identity := results.get(f"q{number}")) is not None:
            digest, _, order = identity.partition(_BETWEEN)
            first, its_order = _first.setdefault((scale, number), (digest, order))
            if not its_order and digest == first:
                _first[scale, number] = first, order


def references(server: Server, scale: str) -> References:
    """The references of a scale factor, computed or read now, outside of the measured time.

    Raises HostError or OctavoError when they are not available.
    """
    has_answers = float(scale) in known().answers
    return References(scale, orders_by_customer.answer(server, scale) if has_answers else None)
