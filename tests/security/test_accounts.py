"""script/accounts, with fake versions of id, useradd and systemctl."""

import os
import subprocess
from pathlib import Path

import pytest

_SCRIPT = Path(__file__).parents[2] / "script" / "accounts"
_TOOLS = {
    "id": 'case $2 in octavo) uid=990 ;; *) uid=991 ;; esac; [ -e "$STATE/$2" ] && echo $uid',
    "useradd": 'for user; do :; done; echo "useradd $user" >>"$STATE/calls"; : >"$STATE/$user"',
    "systemctl": """
        case $1 in
            is-system-running) cat "$STATE/running"; [ "$(cat "$STATE/running")" = running ] ;;
            is-enabled) if [ -e "$STATE/$2" ]; then echo masked; else echo static; fi; exit 1 ;;
            mask) for unit; do :; done; echo "$*" >>"$STATE/calls"; [ ! -e "$STATE/fails" ] && : >"$STATE/$unit" ;;
        esac
    """,
}
_MADE = ["useradd octavo", "useradd octavo-build"]
_MASKED = ["mask --now --quiet user@990.service", "mask --now --quiet user@991.service"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    for name, text in _TOOLS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def _run(state: Path, running: str) -> "subprocess.CompletedProcess[str]":
    (state / "running").write_text(running)
    (state / "calls").write_text("")
    environment = {**os.environ, "PATH": f"{state}:/usr/bin:/bin", "STATE": str(state)}
    return subprocess.run([_SCRIPT], env=environment, capture_output=True, text=True, check=False)


def _calls(state: Path) -> list[str]:
    return (state / "calls").read_text().splitlines()


@pytest.mark.parametrize("running", ["running", "degraded", "starting"])
def test_systemd_starts_no_manager_for_the_accounts(state: Path, running: str) -> None:
    finished = _run(state, running)
    assert finished.returncode == 0, finished.stderr
    assert sorted(_calls(state)) == sorted(_MADE + _MASKED)
    again = _run(state, running)
    assert (again.returncode, again.stdout, _calls(state)) == (0, "", [])


def test_users_that_were_made_before_are_masked_too(state: Path) -> None:
    for user in ("octavo", "octavo-build"):
        (state / user).touch()
    assert _run(state, "running").returncode == 0
    assert _calls(state) == _MASKED


@pytest.mark.parametrize("running", ["offline", "unknown", ""])
def test_where_systemd_does_not_run_there_is_nothing_to_mask(state: Path, running: str) -> None:
    assert _run(state, running).returncode == 0
    assert _calls(state) == _MADE


def test_what_cannot_be_masked_is_told(state: Path) -> None:
    (state / "fails").touch()
    finished = _run(state, "running")
    assert finished.returncode == 3
    assert "could not mask user@990.service; mask it by hand" in finished.stderr
