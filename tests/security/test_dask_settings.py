"""A fleet runs as root if Octavo does: nothing that Dask reads from its files and variables is code that it runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Names in a file of Python's logging.config.fileConfig are evaluated.
_LOGGING = """
[loggers]
keys=root
[handlers]
keys=planted
[formatters]
keys=
[logger_root]
handlers=planted
[handler_planted]
class=StreamHandler
args=(open({path!r}, "w"),)
"""
_ASK = """
import json, sys
import {module}
from octavo.fleet import tls
tls.quiet()
import distributed
from dask import config
names = json.loads(sys.argv[1])
print(json.dumps({{name: config.get(f"distributed.{{name}}") for name in names}}))
"""


@pytest.mark.parametrize("module", ["octavo.fleet.servers", "octavo.fleet.dask_hosts", "octavo.fleet.tls"])
def test_no_code_is_taken_from_dasks_settings(module: str, tmp_path: Path) -> None:
    planted = tmp_path / "ran"
    preload, logs = tmp_path / "evil.py", tmp_path / "logging.ini"
    preload.write_text(f"open({str(planted)!r}, 'w')")
    logs.write_text(_LOGGING.format(path=str(planted)))
    settings = tmp_path / ".config" / "dask"
    settings.mkdir(parents=True)
    (settings / "planted.yaml").write_text(
        f"logging-file-config: {logs}\n"
        f"distributed: {{client: {{preload: [{preload}]}}, worker: {{preload: [{preload}]}}}}"
    )
    environment = {
        "HOME": str(tmp_path),
        "DASK_DISTRIBUTED__SCHEDULER__PRELOAD": str(preload),
        "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
        "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": "/ca.pem",
    }
    names = ["scheduler.preload", "worker.preload", "client.preload", "comm.timeouts.tcp", "comm.tls.ca-file"]
    finished = subprocess.run(
        [sys.executable, "-I", "-c", _ASK.format(module=module), json.dumps(names)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert not planted.exists()
    assert json.loads(finished.stdout) == dict(zip(names, ([], [], [], "12s", "/ca.pem"), strict=True))
