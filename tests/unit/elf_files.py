"""Synthetic ELF files: a section of instructions, and one of constants that look like them."""

import struct

AARCH64, X86_64 = 183, 62
LDADDAL, SWPA, CASAL = 0xF8E00041, 0xB8A08041, 0xC8E0FC41
LDAXR, STLXR, LDAPR, LDR = 0xC85FFC20, 0xC800FC41, 0xF8BFC020, 0xF9400020
RET, NOP = 0xD65F03C0, 0xD503201F
# The beginning of a helper of outlined atomics: adrp x16; ldrb w16, [x16, #92]; cbz w16, +8.
ENTRY = (0x90000110, 0x39417210, 0x34000070)


def words(*instructions: int) -> bytes:
    return b"".join(struct.pack("<I", one) for one in instructions)


def helper(lse: int, *loop: int) -> bytes:
    """A helper of outlined atomics: depending on the CPU the LSE instruction, or a loop of exclusives."""
    return words(*ENTRY, lse, RET, *loop, RET)


def call(place: int, target: int) -> bytes:
    """`bl` at one offset to another one."""
    return words(0x94000000 | ((target - place) // 4 & 0x3FFFFFF))


def elf(code: bytes, machine: int = AARCH64, comment: bytes = b"") -> bytes:
    """A 64-bit little-endian program; `comment` is the text that compilers write into .comment."""
    constants = words(CASAL, STLXR) * 3
    names = b"\0.text\0.rodata\0.comment\0.shstrtab\0"
    contents = [(1, 6, code), (7, 2, constants), (15, 0x30, comment), (24, 0, names)]
    place, headers = 64, [struct.pack("<IIQQQQIIQQ", *[0] * 10)]
    for name, flags, content in contents:
        headers.append(struct.pack("<IIQQQQIIQQ", name, 1, flags, 0, place, len(content), 0, 0, 4, 0))
        place += len(content)
    header = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, place, 0, 64, 0, 0, 64, len(headers), len(contents))
    content = b"".join(content for _, _, content in contents)
    return b"\x7fELF\x02\x01\x01" + bytes(9) + header + content + b"".join(headers)
