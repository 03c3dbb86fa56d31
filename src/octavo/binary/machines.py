"""Names of architectures by ELF's numbers (e_machine). Source: elf.h; System V ABI, gABI 4, "e_machine"."""

AARCH64, X86_64 = 183, 62

_NAMES = {
    3: "x86 (32 bits)",
    8: "MIPS",
    20: "PowerPC",
    21: "PowerPC64",
    22: "s390",
    40: "Arm (32 bits)",
    X86_64: "x86-64",
    AARCH64: "AArch64",
    243: "RISC-V",
    258: "LoongArch",
}


def name_of(machine: int) -> str:
    """The name of an architecture.

    >>> name_of(183), name_of(999)
    ('AArch64', 'architecture 999 of ELF')
    """
    return _NAMES.get(machine, f"architecture {machine} of ELF")
