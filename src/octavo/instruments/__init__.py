"""Instruments: what watches while a trial runs. A new one is a file here and a line in the table."""

from importlib import import_module

from octavo.instruments.base import Instrument

INSTRUMENTS = {
    "device": "octavo.instruments.device",
    "wal": "octavo.instruments.wal",
    "cpu": "octavo.instruments.cpu",
}


def all_instruments() -> dict[str, Instrument]:
    """Every instrument by its name: its module's INSTRUMENT."""
    return {name: import_module(module).INSTRUMENT for name, module in INSTRUMENTS.items()}
