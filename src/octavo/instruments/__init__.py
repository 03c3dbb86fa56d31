"""Instruments: metrics sampled during a trial. To add one, write a file here and add a line to the table."""

from collections.abc import Collection
from importlib import import_module

from octavo.errors import UsageError
from octavo.instruments.base import Instrument, Sampled

# The order matters: instruments that read the kernel come first, so that it does not count the server's work for the
# others.
INSTRUMENTS = {
    "statements": "octavo.instruments.statements",
    "relations": "octavo.instruments.relations",
    "wal_split": "octavo.instruments.wal_split",
    "device": "octavo.instruments.device",
    "requests": "octavo.instruments.requests",
    "burst_balance": "octavo.instruments.burst_balance",
    "cpu": "octavo.instruments.cpu",
    "memory": "octavo.instruments.memory",
    "vmstat": "octavo.instruments.vmstat",
    "pressure": "octavo.instruments.pressure",
    "huge_page_events": "octavo.instruments.huge_page_events",
    "thp_threads": "octavo.instruments.thp_threads",
    "tlb": "octavo.instruments.tlb",
    "processes": "octavo.instruments.processes",
    "pss": "octavo.instruments.pss",
    "database": "octavo.instruments.database",
    "server_io": "octavo.instruments.server_io",
    "wal": "octavo.instruments.wal",
    "checkpointer": "octavo.instruments.checkpointer",
}
# These run only if they are requested by name, because of their cost.
OPTIONAL = {
    "cpus": "octavo.instruments.cpus",
    "wait_events": "octavo.instruments.wait_events",
    "profile": "octavo.instruments.profile",
    "thp_mapped": "octavo.instruments.thp_mapped",
}


def instruments(optional: Collection[str] = ()) -> dict[str, Sampled | Instrument]:
    """Every instrument by its name: its module's INSTRUMENT. Raises UsageError for an unknown optional one."""
    for name in optional:
        if name not in OPTIONAL:
            raise UsageError(f"unknown optional instrument {name!r}; allowed: {', '.join(OPTIONAL)}")
    modules = INSTRUMENTS | {name: OPTIONAL[name] for name in optional}
    return {name: import_module(module).INSTRUMENT for name, module in modules.items()}
