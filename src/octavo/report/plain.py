"""Levels, cells and conditions in prose: `4kB` is a level, "4 kB data blocks" its meaning."""

import re
from collections.abc import Sequence

from octavo.plan.condition_text import condition_text as in_prose
from octavo.report.document import Document, Row, clean, compared, levels, words
from octavo.units import spaced_sizes

_NOUNS = {
    "data_block": ("data blocks", "data block size"),
    "wal_block": ("WAL blocks", "WAL block size"),
    "wal_segment": ("WAL segments", "WAL segment size"),
}


def spaced(text: object) -> str:
    """Sizes as prose writes them.

    >>> spaced("4kB/16kB"), spaced("memory 224MB, 8 clients"), spaced("3%")
    ('4 kB/16 kB', 'memory 224 MB, 8 clients', '3 %')
    """
    return spaced_sizes(clean(text))


def condition_text(condition: str) -> str:
    """A condition as prose, its meaning first."""
    return in_prose(clean(condition))


def cell_text(document: Document, cell: Row) -> str:
    """A cell by its levels of the compared factors, without their noun where it is known from the context.

    With one compared factor that is its level alone, with two the levels of both.
    """
    return quoted(cell["label"]) if ", " in str(cell["label"]) else spaced(cell["label"])


def quoted(label: object) -> str:
    """A cell's label inside a sentence: quoted unless it is a size.

    >>> quoted("4kB"), quoted("coalesced, hole 4"), quoted("4kB/16kB"), quoted("run")
    ('4 kB', '“coalesced, hole 4”', '4 kB/16 kB', '“run”')
    """
    said = spaced(label)
    return said if re.fullmatch(r"[\d.]+ [kMGT]B(/[\d.]+ [kMGT]B)*", said) else f"“{said}”"


def group_text(document: Document, cells: Sequence[Row]) -> str:
    """Several cells of one condition in prose; by levels where they have all combinations of some levels.

    "2 kB and 4 kB data blocks, with any WAL block"; "thp/shmem_thp never/always and always/always"
    """
    factors = compared(document)
    own: dict[str, list[str]] = {}
    for factor in factors:
        here = {str(cell["levels"].get(factor)) for cell in cells}
        own[factor] = [level for level in levels(document, factor) if level in here]
    if len(factors) == 1:
        return named_levels(factors[0], own[factors[0]])
    if len(factors) == 2 and not any(factor in _NOUNS for factor in factors) and _labels_are_levels(document):
        return f"{'/'.join(factors)} {listed([spaced(cell['label']) for cell in cells])}"
    named = len(cells) > 1 or all(factor in _NOUNS for factor in factors)
    if len(factors) == 2 and named and len(cells) == len(own[factors[0]]) * len(own[factors[1]]):
        first, second = factors
        every = len(cells) > 1 and len(own[second]) == len(levels(document, second))
        rest = f"any {_single(second)}" if every else named_levels(second, own[second])
        return f"{named_levels(first, own[first])} with {rest}"
    return listed([cell_text(document, cell) for cell in cells])


def named_levels(factor: str, found: Sequence[str]) -> str:
    """Levels of a factor with its noun.

    >>> named_levels("data_block", ["2kB", "4kB"]), named_levels("huge_pages", ["on"]), named_levels("policy", ["run"])
    ('2 kB and 4 kB data blocks', 'huge pages on', 'run')
    """
    message = listed([spaced(level) for level in found])
    if factor in _NOUNS:
        return f"{message} {_NOUNS[factor][0]}"
    bare = all(not re.fullmatch(r"on|off|none|[\d.]+", level) for level in found)
    return message if bare else f"{words(factor)} {message}"


def _single(factor: str) -> str:
    return _NOUNS[factor][1] if factor in _NOUNS else words(factor)


def cell_heading(document: Document) -> str:
    """The heading of a column of cells: the factors in their labels."""
    factors = compared(document)
    return "/".join(words(factor) for factor in factors) if factors and _labels_are_levels(document) else "cell"


def _labels_are_levels(document: Document) -> bool:
    factors = compared(document)
    return all(
        cell["control"] or cell["label"] == "/".join(str(cell["levels"].get(factor)) for factor in factors)
        for cell in document["cells"]
    )


def is_plural(factor: str) -> bool:
    """Whether levels of the factor are named by a plural noun."""
    return factor in _NOUNS


def listed(names: Sequence[str]) -> str:
    """Names with commas, and the last one with "and"; of many the first, and how many more.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(list("abcdef"))
    ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
