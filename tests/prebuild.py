"""Makes the builds that all tests share, while tests run that need none: `python -m tests.prebuild [ARGUMENTS]`.

With arguments Python goes on with these, in the same process, when the builds are there.
"""

import os
import signal
import sys

from tests.state import shared_builds, shared_state

from octavo.host.journal import Journal


def main() -> None:
    """Ends, and undoes what is half done, when it is told to stop."""
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    with shared_state(), Journal() as journal:
        shared_builds(journal)
    if then := sys.argv[1:]:
        os.execv(sys.executable, [sys.executable, *then])  # noqa: S606 (arguments of script/test)


if __name__ == "__main__":
    main()
