"""Dask's configuration here: its defaults, the settings of `tls.quiet`, and from files and DASK_* variables only
certificates and timeouts.

Other settings there may name code (preload, logging-file-config), which would run as the user of every part of a fleet,
often root. It takes effect when this module is imported, which has to be before `distributed` is. A worker that
somebody else has started keeps its settings.
"""

import sys
from typing import Any

from dask import config as _dask_config

_config: Any = _dask_config  # its types are partly unknown
_KEPT = ("distributed.comm.tls", "distributed.comm.timeouts")


def _forget() -> None:
    if "distributed" in sys.modules:
        return
    found: dict[str, Any] = {name: _config.get(name, None) for name in _KEPT}
    kept: dict[str, Any] = {name: value for name, value in found.items() if isinstance(value, dict)}
    _config.refresh(paths=[], env={})
    _config.set(kept)


_forget()
