"""Which atomic instructions an AArch64 program has: Armv8.1 LSE, or only load-exclusive and store-exclusive.

Source of the encodings: Arm Architecture Reference Manual for A-profile, "Loads and Stores" (C4.1): atomic memory
operations, compare and swap, load/store exclusive. An instruction is a little-endian word of four bytes.
"""

import struct
from pathlib import Path

_AARCH64 = 183
_PROGBITS, _INSTRUCTIONS, _HEADER_BYTES = 1, 4, 64  # of a section (elf(5))
_MOST_BYTES = 256 * 1024**2
# For bytes 1, 2 and 3 of the word (byte 0 holds registers only): which bits count, and what they are.
_Pattern = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]
# LDADD, LDCLR, LDEOR, LDSET, SWP and their kin: size 111000 A R 1 Rs o3 opc 00 Rn Rt; o3 = 1 is SWP and LDAPR.
_OPERATION: _Pattern = ((0x8C, 0x00), (0x20, 0x20), (0x3F, 0x38))
_EXCHANGE: _Pattern = ((0xFC, 0x80), (0x20, 0x20), (0x3F, 0x38))
# CAS: size 001000 1 L 1 Rs o0 11111 Rn Rt.
_COMPARE: _Pattern = ((0x7C, 0x7C), (0xA0, 0xA0), (0x3F, 0x08))
# LDXR, STXR, LDAXR, STLXR: size 001000 0 L 0 Rs o0 11111 Rn Rt.
_EXCLUSIVE: _Pattern = ((0x7C, 0x7C), (0xA0, 0x00), (0x3F, 0x08))


def count_atomics(program: Path) -> tuple[int, int] | None:
    """LSE instructions and exclusive ones in a program's sections of instructions; None when it is none for AArch64.

    Raises OSError.
    """
    with program.open("rb") as file:
        content = file.read(_MOST_BYTES)
    if len(content) < 64 or content[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", content, 18)[0] != _AARCH64:
        return None
    lse = exclusive = 0
    for offset, length in _code(content):
        code = content[offset : offset + length]
        lse += sum(_count(pattern, code) for pattern in (_OPERATION, _EXCHANGE, _COMPARE))
        exclusive += _count(_EXCLUSIVE, code)
    return lse, exclusive


def _code(content: bytes) -> list[tuple[int, int]]:
    """Offset and length of each section of instructions; a segment of them may hold constants as well (elf(5))."""
    (table,), (size, number) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<HH", content, 58)
    found: list[tuple[int, int]] = []
    for at in range(table, min(table + size * number, len(content) - _HEADER_BYTES + 1), size or _HEADER_BYTES):
        _, kind, flags, _, offset, length = struct.unpack_from("<IIQQQQ", content, at)
        if kind == _PROGBITS and flags & _INSTRUCTIONS:
            found.append((offset, length))
    return found


def _count(pattern: _Pattern, code: bytes) -> int:
    """Words that match: for each byte of a word a long number with a bit where it does, and the three of them."""
    whole = len(code) // 4 * 4
    found = -1
    for at, (mask, value) in enumerate(pattern, start=1):
        table = bytes(byte & mask == value for byte in range(256))
        found &= int.from_bytes(code[at:whole:4].translate(table))
    return found.bit_count() if whole else 0
