"""Makes text of others (process names, titles, databases, queries) safe for one line of a terminal."""

from octavo.text import UNPRINTABLE

_LONGEST = 4000


def one_line(text: str) -> str:
    """The beginning of the text on one line, without anything that a terminal would obey (`octavo.text`), nor other
    format characters; runs of blanks are one.

    >>> one_line("SELECT 1;\\n\\x1b[31m -- \\u202exyz")
    'SELECT 1; [31m -- xyz'
    """
    cleaned = UNPRINTABLE.sub(" ", text[:_LONGEST])
    return " ".join("".join(letter if letter.isprintable() else " " for letter in cleaned).split())
