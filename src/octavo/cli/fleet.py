"""`octavo fleet`: sets up the hosts of a run."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from octavo.cli.choices import TableFormat

fleet = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
host = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
fleet.add_typer(host, name="host", hidden=True)

_File = Annotated[Path, typer.Argument(metavar="HOSTS.toml", help="TOML file of hosts (docs/fleet.md).")]
_Format = Annotated[TableFormat, typer.Option(help="Output format: a table, or JSON.")]


@fleet.callback()
def about() -> None:
    """Set up many hosts for octavo run PLAN --fleet HOSTS.toml.

    \b
    octavo fleet init hosts.toml    once: certificates, made here and sent to the hosts
    octavo fleet check hosts.toml   compare Octavo's versions, look for disturbances
    octavo fleet run hosts.toml     start the scheduler here and a worker on every host
    """


@fleet.command()
def init(
    file: _File,
    renew: Annotated[
        bool, typer.Option("--renew", help="Create a new certificate authority; existing certificates become invalid.")
    ] = False,
) -> None:
    """Create a certificate authority and each host's certificate.

    Example: octavo fleet init hosts.toml
    """
    from octavo.errors import HostError
    from octavo.fleet import certificates, launch
    from octavo.remote.hosts_file import read_fleet

    chosen = read_fleet(file)
    if renew or not certificates.has_authority():
        launch.renew_authority(chosen)
        print(f"authority: {certificates.directory() / 'ca.pem'}")
    failed = 0
    for answer in launch.send_certificates(chosen.hosts):
        failed += answer.failure is not None
        print(f"{answer.host.name}: {answer.failure or 'has its certificate'}")
    if failed:
        raise HostError(
            f"{failed} of {len(chosen.hosts)} hosts have no new certificate; try again with: octavo fleet init {file}"
        )


@fleet.command()
def check(file: _File, format: _Format = TableFormat.text) -> None:
    """Check Octavo's version, certificates and disturbances on hosts.

    Exit code 1 if a host cannot take part.

    Example: octavo fleet check hosts.toml
    """
    from octavo.cli.output import print_json
    from octavo.fleet.launch import check as check_hosts
    from octavo.remote.hosts_file import read_fleet

    found = check_hosts(read_fleet(file).hosts)
    if format is TableFormat.json:
        rows = [
            {"host": one.name, "problem": one.problem, "versions": one.versions, "disturbed": one.disturbed}
            for one in found
        ]
        print_json({"schema_version": 1, "hosts": rows})
    else:
        for one in found:
            print(f"{one.name}: {one.problem or 'can take part'}")
            for line in one.disturbed:
                print(f"  disturbs: {line}")
    if any(one.problem for one in found):
        raise typer.Exit(1)


@fleet.command()
def run(file: _File) -> None:
    """Start the scheduler here and a worker on every host.

    Example: octavo fleet run hosts.toml
    """
    from octavo.fleet import launch
    from octavo.remote.hosts_file import read_fleet

    chosen = read_fleet(file)
    launch.start(chosen, lambda line: print(line, file=sys.stderr))
    print(f"scheduler: tls://{launch.scheduler_of(chosen)}")
    print(f"continue with: octavo run PLAN --fleet {file}; stop it with: octavo fleet stop {file}")


@fleet.command()
def status(file: _File, format: _Format = TableFormat.text) -> None:
    """Show the state of each host, and trials that could not be stored.

    Exit code 3 if the fleet is not running.

    Example: octavo fleet status hosts.toml
    """
    from octavo.cli.output import print_json
    from octavo.errors import HostError
    from octavo.fleet.launch import scheduler_of, set_aside_trials
    from octavo.fleet.status import away, look
    from octavo.remote.hosts_file import read_fleet

    chosen = read_fleet(file)
    names = [one.name for one in chosen.hosts]
    problem = None
    try:
        rows = look(scheduler_of(chosen), names)
    except HostError as error:  # set-aside trials are there all the same
        rows, problem = away(names), error
    aside = set_aside_trials(chosen.hosts)
    if format is TableFormat.json:
        print_json({"schema_version": 1, "hosts": rows, "set_aside_trials": aside})
    else:
        for row in rows:
            print(f"{row['host']}: {row['state']}{'  ' + row['address'] if row['address'] else ''}")
        for one in aside:
            print(f"{one['host'] or 'this machine'}: set aside: {one['reason']}  {one['file']}")
    if problem is not None:
        raise problem


@fleet.command()
def stop(file: _File) -> None:
    """Stop workers and scheduler, and restore the hosts.

    Example: octavo fleet stop hosts.toml
    """
    from octavo.errors import HostError
    from octavo.fleet import launch
    from octavo.remote.hosts_file import read_fleet
    from octavo.units import human_count

    failed = launch.stop(read_fleet(file))
    for name, problem in failed.items():
        print(f"{name}: {problem}", file=sys.stderr)
    if failed:
        raise HostError(f"{human_count(len(failed), 'host')} did not respond; run octavo host restore there")
    print("stopped")


@host.command("install")
def install() -> None:
    """Install this host's certificate from standard input; called by `octavo fleet init`."""
    import json

    from octavo.errors import UsageError
    from octavo.fleet import certificates

    try:
        texts = json.loads(sys.stdin.read(1024 * 1024))
    except (ValueError, RecursionError):
        raise UsageError("this is not a certificate of a fleet; octavo fleet init sends them") from None
    certificates.install(texts)


@host.command("facts")
def facts() -> None:
    """Print what `octavo fleet check` asks, as JSON."""
    from octavo.cli.output import print_json
    from octavo.errors import HostError
    from octavo.fleet import certificates
    from octavo.fleet.identity import versions
    from octavo.home import make_directory, octavo_home
    from octavo.host.checks import check_host, disturbing

    try:
        certificates.paths_of(certificates.HOST)
        certificate = certificates.authority_digest()
    except HostError:
        certificate = None
    found = disturbing(check_host(make_directory(octavo_home())))
    print_json({"versions": versions(), "certificate": certificate, "disturbed": [str(one) for one in found]})


@host.command("class")
def print_class() -> None:
    """Print this host's class. `octavo run --fleet` calls it."""
    from octavo.lab.runnable import class_here

    print(class_here())


@host.command("estimate")
def host_estimate(
    of_class: Annotated[str | None, typer.Option("--class", help="The class in the hosts file.")] = None,
) -> None:
    """Print what the plan on standard input would take here, as JSON. `octavo run --fleet … --dry-run` calls it."""
    from octavo.errors import UsageError
    from octavo.fleet.estimates import estimate_here

    try:
        text = estimate_here(sys.stdin.read(1024 * 1024), of_class)
    except (ValueError, RecursionError):
        raise UsageError("this is not a plan; octavo run --fleet HOSTS.toml --dry-run sends it") from None
    print(text)


@host.command("set-aside")
def set_aside() -> None:
    """Print the trials that could not be stored, as JSON. `octavo fleet status` calls it."""
    from octavo.cli.output import print_json
    from octavo.store.set_aside import SetAside

    print_json(SetAside.of_this_home().rows())


@host.command("start")
def start(
    scheduler: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where the scheduler listens.")],
    listen: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where this host's worker listens.")],
    name: Annotated[str, typer.Option(help="This host's name in the run.")],
) -> None:
    """Start this host's worker unless it is running; called by `octavo fleet run`."""
    from octavo.fleet import certificates, daemon

    certificates.paths_of(certificates.HOST)
    print(f"worker: pid {daemon.start(daemon.WORKER, scheduler, listen, name)}")


@host.command("stop")
def stop_worker() -> None:
    """Stop this host's worker and restore the host; called by `octavo fleet stop`."""
    from octavo.fleet import daemon
    from octavo.host.journal import recover

    print("stopped" if daemon.stop(daemon.WORKER) else "no worker was running")
    for line in recover():
        print(line)
