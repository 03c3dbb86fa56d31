"""The Dask configuration used here: Dask's defaults, the settings of `tls.quiet`, and only certificates and timeouts
from configuration files and DASK_* variables.

Other settings in those files may name code to run (preload, logging-file-config), and it would run as the user of every
part of the fleet, often root. Importing this module applies the configuration, so import it before `distributed`. A
worker that somebody else has started keeps its settings.
"""

import sys
from typing import Any

from dask import config as _dask_config

_config: Any = _dask_config  # the module is only partly typed
_KEPT = ("distributed.comm.tls", "distributed.comm.timeouts")


def _forget() -> None:
    if "distributed" in sys.modules:
        return
    found: dict[str, Any] = {name: _config.get(name, None) for name in _KEPT}
    kept: dict[str, Any] = {name: value for name, value in found.items() if isinstance(value, dict)}
    _config.refresh(paths=[], env={})
    _config.set(kept)


_forget()
