"""Where Python begins in the single file. An old one has to understand this, to say what is needed."""

import os
import sys

if sys.version_info < (3, 11):
    sys.stderr.write(
        "octavo: Python 3.11 or newer is needed, and this is %d.%d; where both are, run: python3.11 %s\n"
        % (sys.version_info[0], sys.version_info[1], sys.argv[0])
    )
    sys.exit(3)

# Without PYTHON* variables, packages of the user, and /usr/local/lib, which Debian gives to a group of users.
if sys.executable and not (sys.flags.isolated and sys.flags.no_site):
    os.execv(sys.executable, [sys.executable, "-IS"] + sys.argv)

from octavo_launcher import start

start(sys.path[0])
