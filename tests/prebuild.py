"""Makes the builds that all tests share, while tests run that need none: `python -m tests.prebuild [ARGUMENTS]`.

With arguments Python is then started with these, in the same process.
"""

import os
import signal
import sys

from tests.state import shared_builds, shared_state

from octavo.host.journal import Journal


def main() -> None:
    """Makes the builds; a signal ends it and removes partial results."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with shared_state(), Journal() as journal:
        shared_builds(journal)
    if then := sys.argv[1:]:
        os.execv(sys.executable, [sys.executable, *then])  # noqa: S606 (arguments of script/test)


if __name__ == "__main__":
    main()
