"""Facts: each with its value and source, or the reason why it is unknown or absent.

Names contain the unit: `…_bytes`, `…_per_second`, `…_seconds`. `host.` is about the machine, `server.` and `setting.`
are the server's own report, `live.` are differences over a few seconds. A setting is in bytes, seconds, a number, true
or false, or text, according to its type in PostgreSQL's `pg_settings`. Null means that there is known to be no value. A
fact is absent if its subject does not exist: a setting of a later version, a server that does not run yet.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from octavo.doctor.storage_volumes import OF_A_VOLUME, ServerVolume
from octavo.errors import UsageError

SCHEMA_VERSION = 1


class UnknownError(Exception):
    """A fact that a rule needs cannot be determined; the message is the reason."""


class NotApplicableError(Exception):
    """The rule does not apply to this server; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with the file or view that it comes from, or the reason why it is unknown or absent."""

    name: str
    value: Any = None
    source: str = ""
    unknown: str = ""
    absent: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it has a value, which may be null."""
        return not (self.unknown or self.absent)

    def as_dict(self) -> dict[str, Any]:
        """The fact for JSON."""
        if self.absent:
            return {"absent": self.absent}
        return {"unknown": self.unknown} if self.unknown else {"value": self.value, "source": self.source}


class Facts(Mapping[str, Fact]):
    """Facts by name. A fact whose name ends in a dot stands for all names with that prefix that have no fact of their
    own."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts = {fact.name: _finite(fact) for fact in facts}

    def __getitem__(self, name: str) -> Fact:
        if found := self._facts.get(name):
            return found
        prefix = name
        while prefix:
            prefix = prefix[:-1].rpartition(".")[0]
            if found := self._facts.get(f"{prefix}."):
                return Fact(name, unknown=found.unknown, absent=found.absent)
        return Fact(name, unknown="not examined")

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def has_own(self, name: str) -> bool:
        """Whether there is a fact of exactly this name."""
        return name in self._facts

    def as_dict(self) -> dict[str, Any]:
        """The facts for JSON."""
        return {name: fact.as_dict() for name, fact in self._facts.items()}


def _finite(fact: Fact) -> Fact:
    """An infinite or undefined number becomes unknown: JSON has none, and no rule can use one."""
    if isinstance(fact.value, float) and not math.isfinite(fact.value):
        return Fact(fact.name, unknown=f"{fact.source} says {fact.value}")
    return fact


def read_facts(document: Any) -> Facts:
    """Parses facts as written by `as_dict`; a plain value stands for itself. Accepts the facts alone, as `facts` of an
    object, or those of the first server of a report. Raises UsageError for anything else."""
    found = document
    if isinstance(found, dict) and isinstance(servers := cast("dict[str, Any]", found).get("servers"), list):
        found = next(iter(cast("list[Any]", servers)), None)
    if isinstance(found, dict) and "facts" in found:
        found = cast("dict[str, Any]", found)["facts"]
    if not isinstance(found, dict):
        raise UsageError("facts must be an object of names and values, or a report of octavo doctor --format json")
    return Facts(_fact(str(name), told) for name, told in cast("dict[object, Any]", found).items())


def _fact(name: str, told: Any) -> Fact:
    if not isinstance(told, dict):
        return Fact(name, told, "given")
    fields = cast("dict[str, Any]", told)
    unknown, absent = (str(fields.get(word, "")) for word in ("unknown", "absent"))
    if unknown or absent:
        return Fact(name, unknown=unknown, absent=absent)
    return Fact(name, fields.get("value"), str(fields.get("source", "given")))


class RuleFacts:
    """The facts as one rule requests them. `evidence`: the facts that it has requested.

    A rule that is evaluated for a volume gets that volume's facts of storage by their plain names. `is_spread`: tables
    and indexes are on several volumes, so the server's counters are about all of them.
    """

    def __init__(self, facts: Facts, volume: ServerVolume | None = None, *, is_spread: bool = False) -> None:
        self._facts = facts
        self.volume, self.is_spread = volume, is_spread
        self.evidence: dict[str, Fact] = {}

    def is_of_volume(self, name: str) -> bool:
        """Whether the fact belongs to this volume, not to the server or the host."""
        return self.volume is not None and (
            name.startswith(OF_A_VOLUME) or self._facts.has_own(f"volume.{self.volume.number}.{name}")
        )

    def _fact(self, name: str) -> Fact:
        if self.volume is None or not self.is_of_volume(name):
            return self._facts[name]
        if self.volume.number == 0 and name.startswith(OF_A_VOLUME):
            return self._facts[name]
        return self._facts[f"volume.{self.volume.number}.{name}"]

    def value(self, name: str) -> Any:
        """The value, of any type. Raises UnknownError or NotApplicableError with the reason."""
        fact = self._fact(name)
        if fact.absent:
            raise NotApplicableError(f"{name}: {fact.absent}")
        if fact.unknown:
            raise UnknownError(f"{name}: {fact.unknown}")
        self.evidence[fact.name] = fact
        return fact.value

    def whole(self, name: str) -> int:
        """A whole number; sizes in bytes. Raises UnknownError."""
        found = self.value(name)
        if isinstance(found, bool) or not isinstance(found, int):
            raise UnknownError(f"{name}: {found!r} is not an integer")
        return found

    def number(self, name: str) -> float:
        """A number. Raises UnknownError."""
        found = self.value(name)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise UnknownError(f"{name}: {found!r} is not a number")
        return float(found)

    def text(self, name: str) -> str:
        """Text. Raises UnknownError."""
        found = self.value(name)
        if not isinstance(found, str):
            raise UnknownError(f"{name}: {found!r} is not text")
        return found

    def flag(self, name: str) -> bool:
        """True or false. Raises UnknownError."""
        found = self.value(name)
        if not isinstance(found, bool):
            raise UnknownError(f"{name}: {found!r} is neither true nor false")
        return found

    def rows(self, name: str) -> list[dict[str, Any]]:
        """A list of objects. Raises UnknownError."""
        found = self.value(name)
        if not isinstance(found, list):
            raise UnknownError(f"{name}: {found!r} is not a list")
        return [cast("dict[str, Any]", one) for one in cast("list[Any]", found) if isinstance(one, dict)]

    def words(self, name: str) -> list[str]:
        """A list of words. Raises UnknownError."""
        found = self.value(name)
        if not isinstance(found, list):
            raise UnknownError(f"{name}: {found!r} is not a list")
        return [str(one) for one in cast("list[Any]", found)]

    def words_or_none(self, name: str) -> list[str] | None:
        """A list of words, None where it is unknown or there is none."""
        return self.words(name) if self.has(name) else None

    def whole_or_none(self, name: str) -> int | None:
        """A whole number, None where it is unknown or there is none."""
        return self.whole(name) if self.has(name) else None

    def number_or_none(self, name: str) -> float | None:
        """A number, None where it is unknown or there is none."""
        return self.number(name) if self.has(name) else None

    def text_or_none(self, name: str) -> str | None:
        """Text, None where it is unknown or there is none."""
        return self.text(name) if self.has(name) else None

    def why_not(self, name: str) -> str:
        """The reason why a fact has no value."""
        fact = self._fact(name)
        return fact.unknown or fact.absent or "there is none"

    def has(self, name: str) -> bool:
        """Whether the fact is known and not null."""
        fact = self._fact(name)
        return fact.is_known and fact.value is not None
