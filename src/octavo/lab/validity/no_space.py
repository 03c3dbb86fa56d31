"""The disk was full during the run: what server and client did then is not a measurement."""

from octavo.lab.validity.evidence import Evidence

# What strerror(3) has for ENOSPC and EDQUOT in the C locale, which servers and clients run in.
_WORDS = ("No space left on device", "Disk quota exceeded")


def judge(evidence: Evidence) -> str | None:
    """Invalid when the server's log or the client's output says that the disk or a quota was full."""
    for writer, text in (("server", evidence.server_log), ("client", evidence.result.output)):
        for words in _WORDS:
            if words in text:
                return f"the {writer} says: {words}"
    return None
