"""The dict that the core (`octavo._core.binary_scan`) returns for an ELF file."""

from typing import TypedDict


class ElfReport(TypedDict):
    """What is in an ELF file."""

    machine: int  # e_machine
    bits: int
    is_little_endian: bool
    kind: str
    is_stripped: bool
    is_debug_file: bool
    code_bytes: int
    counts: list[tuple[str, str, int, int]]  # mnemonic, group, count, those in helpers of outlined atomics
    helpers: list[tuple[str, int]]  # name, branches to it
    levels: list[tuple[str, int, int, list[str]]]  # level or extension, instructions, stretches of 4 kB, functions
    stretches: int  # of 4 kB of code, in all
    detects_cpu: bool
    compilers: list[str]
    producers: list[tuple[str, int]]  # compiler with flags, units
    notes: list[str]
