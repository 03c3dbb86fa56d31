"""Profile-guided optimization: an instrumented build, a training run of its own server, and the build that uses both.

Everything runs in the process that makes builds, with the account's rights. Sources: GCC manual, "Program
Instrumentation Options" (-fprofile-generate) and "Optimize Options" (-fprofile-use); meson, "Built-in options" (b_pgo).
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo.errors import OctavoError
from octavo.postgres.builds import meson, training
from octavo.postgres.builds.installation import lay_out
from octavo.postgres.builds.spec import Progress
from octavo.postgres.builds.stages import CONFIGURATION, INSTRUMENTED, TRAINING
from octavo.postgres.builds.workspace import BuildWorkspace

_START_SECONDS = 120.0
_STOP_SECONDS = 120.0
# Little memory and no waits for a disk: the profile is about executed code, not about time.
_SETTINGS = {
    "listen_addresses": "", "shared_buffers": "48MB", "fsync": "off", "autovacuum": "off", "jit": "off",
    "max_parallel_workers_per_gather": "0", "max_connections": "10", "unix_socket_directories": ".",
}  # fmt: skip
# The server's socket and its clients are in its data directory, so the path is short whatever the directory's.
_HERE = "/proc/self/cwd"


def train(
    workspace: BuildWorkspace,
    tree: Path,
    build: Path,
    options: Sequence[str],
    files: Mapping[str, str],
    progress: Progress,
) -> None:
    """Compiles for a profile, runs the training, and configures the build that uses it. The profile is then next to the
    objects, where the compiler looks for it.

    `options`: meson's, for the build that will use the profile. `files`: the scripts that psql and pgbench run. Raises
    ToolFailed if a step fails, OctavoError if there is no profile.
    """
    progress(CONFIGURATION, 0, 1)
    instrumented = [training.GENERATE if option == training.USE else option for option in options]
    meson.configure(workspace, tree, build, instrumented)
    meson.compile_installed(workspace, build, progress, INSTRUMENTED)
    progress(TRAINING, 0, 1)
    root = lay_out(meson.installed(workspace, build), workspace.directory / "instrumented", workspace.directory)
    # The profile of what initdb does is not wanted twice as much as that of what a server does.
    data = workspace.directory / "training"
    workspace.run(
        root / "bin" / "initdb", "--pgdata", data, "--no-sync", "--auth=trust", "--username=postgres", "--locale=C",
        "--encoding=UTF8", doing=TRAINING,
    )  # fmt: skip
    for name, text in files.items():
        (data / name).write_text(text)
    _serve(workspace, root / "bin", data, progress)
    # An object of the server that every training executes.
    if not any(build.rglob("*bufmgr*.gcda")):
        raise OctavoError("the training wrote no gcc profile; a build with pgo needs gcc")
    # meson 1.0 applies it from `setup --reconfigure` only in the next configuration.
    workspace.run("meson", "configure", build, training.USE, doing=CONFIGURATION)
    meson.configure(workspace, tree, build, options)
    if "-fprofile-generate" in (build / "build.ninja").read_text():
        raise OctavoError("this meson cannot compile with the profile; try a newer one")


def _serve(workspace: BuildWorkspace, programs: Path, data: Path, progress: Progress) -> None:
    """Runs the training against a server, which is stopped in any case."""
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    log = data / "training.log"
    with log.open("wb") as output:
        # It is in this process's group and ends with it.
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *settings],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=data, env=workspace.environment,
        )  # fmt: skip
    try:
        _wait(server, programs, data, workspace)
        client = ("env", "-C", data, f"PGHOST={_HERE}", "PGUSER=postgres", "PGDATABASE=postgres")
        workspace.run(*client, programs / "pgbench", *training.INITIALIZE, doing=TRAINING)
        psql = (programs / "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--file={training.FILL}")
        workspace.run(*client, *psql, doing=TRAINING)
        for number, arguments in enumerate(training.RUNS, 1):
            pgbench = (programs / "pgbench", "--no-vacuum", "--client=2", "--random-seed=1", *arguments)
            workspace.run(*client, *pgbench, doing=TRAINING)
            progress(TRAINING, number, len(training.RUNS))
        server.terminate()  # its own profile is written on a normal exit
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        raise OctavoError("the training server did not stop") from None
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def _wait(server: "subprocess.Popen[bytes]", programs: Path, data: Path, workspace: BuildWorkspace) -> None:
    """Waits until the server answers. Raises OctavoError when it exits before, or does not answer within two
    minutes."""
    deadline = time.monotonic() + _START_SECONDS
    environment = {**workspace.environment, "PGHOST": _HERE}
    while time.monotonic() < deadline and server.poll() is None:
        asked = subprocess.run(
            [programs / "pg_isready", "--quiet"], cwd=data, env=environment, stdin=subprocess.DEVNULL, check=False
        )
        if asked.returncode == os.EX_OK:
            return
        time.sleep(0.1)
    message = (data / "training.log").read_text(errors="replace").strip().splitlines()
    raise OctavoError(f"the training server did not start: {message[-1][:300] if message else 'it gave no reason'}")
