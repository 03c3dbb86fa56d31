"""The disk was full during the run: the server and the client did not do the measured work."""

from octavo.lab.validity.evidence import Evidence

# The texts of strerror(3) for ENOSPC and EDQUOT in the C locale, which servers and clients use.
_WORDS = ("No space left on device", "Disk quota exceeded")


def judge(evidence: Evidence) -> str | None:
    """Invalid when the server's log or the client's output reports that the disk or a quota was full."""
    for writer, text in (("server", evidence.server_log), ("client", evidence.result.output)):
        for words in _WORDS:
            if words in text:
                return f"the {writer} says: {words}"
    return None
