"""What `doctor` does as the user who owns a socket, while it has that user's identity."""

import subprocess
import sys
from pathlib import Path

from tests.security.conftest import needs_root

# If only root can read the checkout, an import as another user fails; here every import does.
_CONNECT = """
import os, sys
from octavo.doctor import examine
from octavo.doctor.collect.find import Listener
from octavo.errors import HostError

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if os.geteuid() != 0:
            sys.exit(f"{name} is imported as another user")

sys.meta_path.insert(0, Refusing())
try:
    examine._connect_to(Listener(sys.argv[1], 5432, 65534))
except HostError as error:
    print(error)
"""


@needs_root
def test_nothing_is_imported_as_the_sockets_owner(tmp_path: Path) -> None:
    finished = subprocess.run([sys.executable, "-c", _CONNECT, tmp_path], capture_output=True, text=True, check=False)
    assert finished.stderr == ""
    assert finished.stdout.startswith("could not connect to the server: ")
