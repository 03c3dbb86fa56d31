"""Text of others (process names, titles, databases, queries) made fit for a terminal's line."""

_LONGEST = 4000


def one_line(text: str) -> str:
    """The text on one line, without anything that a terminal would obey: control and format characters (bidirectional
    overrides among them), line and paragraph separators; runs of blanks are one.

    >>> one_line("SELECT 1;\\n\\x1b[31m -- \\u202exyz")
    'SELECT 1; [31m -- xyz'
    """
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST]).split())
