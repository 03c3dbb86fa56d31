"""In which order shared libraries have to be loaded, when the loader is to search for none of them."""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping

_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")


def needed(content: bytes) -> list[str]:
    """The names of the libraries that a shared object links (DT_NEEDED)."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        done = subprocess.run(
            ["readelf", "--wide", "--dynamic", file.name],
            capture_output=True,
            check=True,
            text=True,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )
    return _NEEDED.findall(done.stdout)


def load_order(wanted: Iterable[str], libraries: Mapping[str, list[str]]) -> list[str]:
    """Those of the libraries that are wanted, each after what it needs itself; others are the system's.

    `libraries` has what each one needs, by name.

    >>> load_order(["pq", "c"], {"krb5": ["crypto"], "pq": ["ssl", "krb5"], "ssl": ["crypto", "z"], "crypto": ["c"]})
    ['crypto', 'ssl', 'krb5', 'pq']
    """
    order: list[str] = []

    def add(names: Iterable[str]) -> None:
        for name in names:
            if name in libraries and name not in order:
                add(libraries[name])
                order.append(name)

    add(wanted)
    return order
