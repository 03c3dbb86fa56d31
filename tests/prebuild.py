"""Makes the builds that all tests share: `python -m tests.prebuild`, while tests run that need none of them."""

import signal

from tests.state import shared_builds, shared_state

from octavo.host.journal import Journal


def main() -> None:
    """Ends, and undoes what is half done, when it is told to stop."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with shared_state(), Journal() as journal:
        shared_builds(journal)


if __name__ == "__main__":
    main()
