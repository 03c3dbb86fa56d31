"""Caches repeated queries on a document: each of 80 conditions queries all effects."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


class Remembered(dict[str, Any]):
    """A document that no longer changes, with cached results of functions on it."""

    def __init__(self, document: Any) -> None:
        super().__init__(document)
        self.answers: dict[Any, Any] = {}


def remembered(document: Any) -> Remembered:
    """The document for as long as it is shown; one that is so already stays the same."""
    return document if isinstance(document, Remembered) else Remembered(document)


def once(question: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A function of a document and hashable arguments, computed once for a `Remembered` one. Nobody may change what
    it returns.

    >>> @once
    ... def asked(document, name):
    ...     print("computed")
    ...     return document[name]
    >>> document = remembered({"a": 1})
    >>> asked(document, "a"), asked(document, "a")
    computed
    (1, 1)
    """

    @wraps(question)
    def answer(document: Any, *arguments: P.args, **options: P.kwargs) -> T:
        if not isinstance(document, Remembered):
            return question(document, *arguments, **options)
        key = (question, arguments, tuple(options.items()))
        if key not in document.answers:
            document.answers[key] = question(document, *arguments, **options)
        return cast(T, document.answers[key])

    return answer
