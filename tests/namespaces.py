"""Hosts of a fleet on one machine: each a network and mount namespace with a state directory and a run lock of its own.

They are joined by a bridge in a namespace that is the coordinator's. A host is a process that does nothing; commands
enter its namespaces by nsenter(1). Nothing of it is in the machine's own network, and everything ends with the
processes that hold the namespaces.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.sshd import Sshd, ssh_server

from octavo.home import runtime_directory

ROOT = Path(__file__).parents[1]
OCTAVO = [sys.executable, "-m", "octavo"]
# Each holds its namespaces until its standard input is closed, at the latest by the end of the test, however it ends.
_HOLD = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c"]
# Unmount volumes of other tests immediately: a copy of a mount in another namespace would keep their loop device busy.
LET_VOLUMES_GO = "awk '$2 ~ /\\/volumes\\// {print $2}' /proc/self/mounts | xargs -r umount -l"
# A host that gets no CPU time for half a minute is not lost, but Dask's own time-outs would report it as lost.
_PATIENT = ("DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=300s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=300s")
_READY = (
    f"{LET_VOLUMES_GO} && mount -t tmpfs -o mode=755 none /run/octavo && ip link set lo up && echo ready && "
    "exec cat >/dev/null"
)


@dataclass(frozen=True, slots=True)
class Place:
    """A host, or the coordinator's machine: the process that holds its namespaces, its state, and its address."""

    name: str
    holder: int
    home: Path
    address: str
    environment: tuple[str, ...] = ()

    @property
    def through(self) -> list[str]:
        """The prefix of a command that runs there."""
        there = ["nsenter", "-t", str(self.holder), "-n", "-m"]
        return [*there, "env", f"OCTAVO_HOME={self.home}", f"PYTHONPATH={ROOT / 'src'}:{ROOT}", *self.environment]

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command there; with `check` an exit code other than 0 is an error that contains its output."""
        done = subprocess.run([*self.through, *arguments], check=False, capture_output=True, text=True, timeout=1200)
        failed = f"{' '.join(arguments)}: exit {done.returncode}: {done.stderr[-4000:]}"
        assert not check or done.returncode == 0, failed
        return done

    def octavo(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs Octavo there."""
        return self.run(*OCTAVO, *arguments, check=check)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts Octavo there."""
        return subprocess.Popen(
            [*self.through, *OCTAVO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


@dataclass(frozen=True, slots=True)
class Network:
    """The coordinator and the hosts, in the file that `octavo fleet` reads."""

    coordinator: Place
    hosts: tuple[Place, ...]
    file: Path

    def cut(self, host: Place) -> None:
        """Disconnects the host from the network."""
        self.coordinator.run("ip", "link", "set", f"to-{host.name}", "down")

    def mend(self, host: Place) -> None:
        """Connects it again."""
        self.coordinator.run("ip", "link", "set", f"to-{host.name}", "up")

    @contextmanager
    def changed(self, old: str, new: str, *, after: str = "") -> Generator[None, None, None]:
        """Replaces a text in the file while the block runs: its first occurrence after `after`."""
        text = self.file.read_text()
        before, mark, rest = text.partition(after) if after else ("", "", text)
        assert old in rest
        self.file.write_text(before + mark + rest.replace(old, new, 1))
        try:
            yield
        finally:
            self.file.write_text(text)


@contextmanager
def network(
    names: Sequence[str], shared: Sequence[Path] = (), *, patience: str = "10min", environment: Sequence[str] = (),
    ssh: bool = False,
) -> Generator[Network, None, None]:  # fmt: skip
    """Hosts with these names; `shared` directories are linked into every state directory. With `ssh` they are reached
    over an sshd in a namespace of its own. `environment` may set other time-outs of Dask."""
    runtime_directory()  # to mount on
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="octavo-fleet-", dir="/var/tmp"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)

        def place(name: str, number: int) -> Place:
            home = directory / name
            home.mkdir(mode=0o711)
            for one in shared:
                (home / one.name).symlink_to(one)
            holder = subprocess.Popen(
                [*_HOLD, _READY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            stack.callback(_let_go, holder)
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            return Place(name, holder.pid, home, f"10.77.0.{number}", (*_PATIENT, *environment))

        coordinator = place("coordinator", 1)
        coordinator.run("ip", "link", "add", "hub", "type", "bridge")
        coordinator.run("ip", "addr", "add", f"{coordinator.address}/24", "dev", "hub")
        coordinator.run("ip", "link", "set", "hub", "up")
        hosts = [place(name, number) for number, name in enumerate(names, 11)]
        gate = [place("gate", 2)] if ssh else []
        for host in (*hosts, *gate):
            end = f"to-{host.name}"
            peer = ["type", "veth", "peer", "name", "net0", "netns", str(host.holder)]
            coordinator.run("ip", "link", "add", end, *peer)
            coordinator.run("ip", "link", "set", end, "master", "hub", "up")
            host.run("ip", "addr", "add", f"{host.address}/24", "dev", "net0")
            host.run("ip", "link", "set", "net0", "up")
        sshd = stack.enter_context(ssh_server(gate[0].home, gate[0].address, gate[0].through)) if gate else None
        file = directory / "hosts.toml"
        file.write_text(_file(coordinator, hosts, patience, sshd))
        made = Network(coordinator, tuple(hosts), file)
        stack.callback(coordinator.octavo, "fleet", "stop", str(file), check=False)
        yield made


def _let_go(holder: "subprocess.Popen[str]") -> None:
    assert holder.stdin is not None
    holder.stdin.close()
    holder.wait(60)


def _file(coordinator: Place, hosts: Sequence[Place], patience: str, sshd: Sshd | None) -> str:
    lines = ["[fleet]", f'scheduler = "{coordinator.address}:8786"', f'patience = "{patience}"']
    for host in hosts:
        words = " ".join(host.through)
        if sshd is not None:
            lines.append(sshd.table(host.name, f"{words} {' '.join(OCTAVO)}", listen=f"{host.address}:8790"))
            continue
        lines += ["[[host]]", f'name = "{host.name}"', f'address = "{host.address}"', f'through = "{words}"']
        lines.append(f'octavo = "{" ".join(OCTAVO)}"')
    return "\n".join(lines) + "\n"


def processes_in(place: Place) -> list[int]:
    """The processes in the place's network, except the one that holds it."""
    mine = (Path("/proc") / str(place.holder) / "ns" / "net").readlink()
    found: list[int] = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and int(entry.name) != place.holder:
            try:
                if (Path(entry.path) / "ns" / "net").readlink() == mine:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
