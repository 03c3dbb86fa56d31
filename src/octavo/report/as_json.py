"""The document as JSON, as it is."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, cast

from octavo.report.document import Document


def render(document: Document) -> str:
    """The whole document, a line for each entry of its lists; a NaN or an infinity in it raises ValueError."""
    return "".join(pieces(document))


def pieces(document: Document) -> Iterator[str]:
    """The same in pieces, so that a run with a million observations is never held as one text.

    Lists (and iterators, as lists) are written entry by entry: indentation by `json` is done in Python, and takes
    ten times as long.
    """
    separator = "{"
    for key, value in document.items():
        yield f"{separator}\n  {json.dumps(key)}: "
        separator = ","
        if isinstance(value, list | Iterator):
            between = "["
            for entry in cast(Iterable[Any], value):
                yield f"{between}\n    {_line(entry)}"
                between = ","
            yield "\n  ]" if between == "," else "[]"
        else:
            yield json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False).replace("\n", "\n  ")
    yield "\n}\n" if document else "{}\n"


_line = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
