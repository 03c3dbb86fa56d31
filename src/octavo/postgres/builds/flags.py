"""Whether a compiler accepts its flags, and whether this CPU runs the resulting code: checked before minutes of
compiling."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from octavo.host import children
from octavo.host.journal import Journal
from octavo.host.safe_read import read_text
from octavo.postgres.builds import cross, traced
from octavo.postgres.builds.recipe import RUN_PATH, RUN_PATH_FOR_MAKE
from octavo.text import one_line

# Instruction sets by the compiler's macro (GCC manual, "Common Predefined Macros" of the target; Arm C Language
# Extensions) and the kernel's word in /proc/cpuinfo (arch/x86/include/asm/cpufeatures.h;
# Documentation/arch/arm64/elf_hwcaps.rst).
_SETS = {
    "__SSE3__": "pni", "__SSSE3__": "ssse3", "__SSE4_1__": "sse4_1", "__SSE4_2__": "sse4_2", "__POPCNT__": "popcnt",
    "__AVX__": "avx", "__AVX2__": "avx2", "__BMI__": "bmi1", "__BMI2__": "bmi2", "__FMA__": "fma", "__F16C__": "f16c",
    "__LZCNT__": "abm", "__MOVBE__": "movbe", "__AVX512F__": "avx512f", "__AVX512BW__": "avx512bw",
    "__AVX512CD__": "avx512cd", "__AVX512DQ__": "avx512dq", "__AVX512VL__": "avx512vl",
    "__ARM_FEATURE_ATOMICS": "atomics", "__ARM_FEATURE_CRC32": "crc32", "__ARM_FEATURE_QRDMX": "asimdrdm",
    "__ARM_FEATURE_FP16_SCALAR_ARITHMETIC": "fphp", "__ARM_FEATURE_FP16_VECTOR_ARITHMETIC": "asimdhp",
    "__ARM_FEATURE_DOTPROD": "asimddp", "__ARM_FEATURE_RCPC": "lrcpc", "__ARM_FEATURE_SVE": "sve",
    "__ARM_FEATURE_SVE2": "sve2",
}  # fmt: skip
_CPUINFO = Path("/proc/cpuinfo")
_MOST_BYTES = 16 * 1024**2
_DEFINED = re.compile(r"^#define (\w+) ", re.MULTILINE)
_FLAGS = re.compile(r"^(?:flags|Features)\s*:(.*)$", re.MULTILINE)
# Flags that only select the compiler's own behaviour. Any other flag may make it read a file, load a plugin or run a
# program of somebody else's, or insert code into programs that the build itself runs, as macros do.
_OF_ITS_OWN = re.compile(
    r"-(?!fplugin|fpass-plugin|fuse-ld|fprofile|fauto-profile|mllvm)"
    r"(?:O(?:[0-3sgz]|fast)?|g[0-3]?|pipe|m[a-z0-9][A-Za-z0-9._+=-]*|f[a-z][a-z0-9-]*(?:=[a-z0-9-]+)?)"
)
# Options of meson and configure whose value is a word: no path, and no variable such as CC. A prefix is only a name.
_PLAIN_OPTION = re.compile(
    r"-D[A-Za-z][A-Za-z0-9_]*=[A-Za-z0-9_.,]*|--prefix=\S*|--[a-z][a-z0-9-]*(?:=[A-Za-z0-9_.,]*)?", re.ASCII
)
_OUR_LINKER_FLAGS = frozenset({RUN_PATH, RUN_PATH_FOR_MAKE, *traced.LINKER_FLAGS})
_PAGE_SIZE = re.compile(r"-Wl,-z,(?:max|common)-page-size=[0-9]{1,12}")
_COMPILER = re.compile(r"(?:[a-z0-9_]+-linux-gnu-)?(?:gcc|clang|cc)(?:-[0-9]{1,3})?")
_ERROR = re.compile(r"error: (.+)", re.IGNORECASE)
_NOTHING = "/dev/null"


def refused(compiler: str, flags: Sequence[str], journal: Journal, cpuinfo: Path | None = None) -> str | None:
    """Why these flags cannot be used here, or None: the compiler or its assembler rejects them, or the CPU lacks an
    instruction set that they allow the compiler to use.

    A missing compiler is not a problem of its flags: None. Flags for another machine are not compared with this CPU,
    unless its instruction sets are in `cpuinfo`. Raises OctavoError if the compiler cannot be run.
    """
    path = shutil.which(compiler, path=children.PLAIN_PATH)
    if path is None or not flags:
        return None
    words, account = " ".join(flags), children.build_account()
    # Compile to an object: the assembler may not know what the compiler accepts.
    tried = children.run(
        [path, *flags, "-x", "c", "-c", "-o", _NOTHING, _NOTHING], journal, role="compiler", account=account
    )
    if tried.returncode != 0:
        return f"{compiler} refuses {words}: {_complaint(tried.stderr)}"
    macros = children.run([path, *flags, "-x", "c", "-dM", "-E", _NOTHING], journal, role="compiler", account=account)
    if cpuinfo is None and cross.machine_of(compiler):
        return None
    try:
        has = cpu_flags(read_text(cpuinfo or _CPUINFO, _MOST_BYTES))
    except (OSError, ValueError):
        return None
    lacks = missing(macros.stdout, has)
    return f"this CPU has no {', '.join(lacks)}, which {words} uses" if lacks else None


def are_harmless(compiler: str, flags: Sequence[str]) -> bool:
    """Whether a compiler with these flags runs and reads nothing but its own files and the sources.

    A plan, and so its flags, may come from anybody.

    >>> are_harmless("gcc-12", ["-O3", "-march=x86-64-v3", "-fno-plt"]), are_harmless("gcc", ["-fplugin=/tmp/x.so"])
    (True, False)
    >>> [are_harmless("gcc", [flag]) for flag in ("-B/tmp", "-Dexit(x)=abort()", "-include/tmp/x.h", "-specs=x")]
    [False, False, False, False]
    >>> are_harmless("python3", []), are_harmless("aarch64-linux-gnu-gcc", ["-mcpu=neoverse-n1"])
    (False, True)
    """
    return _COMPILER.fullmatch(compiler) is not None and all(map(_OF_ITS_OWN.fullmatch, flags))


def is_harmless(option: str) -> bool:
    """Whether a build with this option of meson or configure runs and reads nothing of others because of it.

    >>> [is_harmless(option) for option in ("-Db_lto=true", "--with-llvm", "-Dc_args=-O3", f"-Dc_link_args={RUN_PATH}")]
    [True, True, True, True]
    >>> [is_harmless(f"-D{name}=/home/eve/x") for name in ("BISON", "extra_lib_dirs")], is_harmless("CC=/home/eve/cc")
    ([False, False], False)
    >>> is_harmless("-Dc_args=-O3 -fplugin=x"), is_harmless("LDFLAGS=-B/home/eve")
    (False, False)
    """
    name, _, value = option.partition("=")
    if name in ("-Dc_args", "CFLAGS"):
        return all(map(_OF_ITS_OWN.fullmatch, value.split()))
    if name in ("-Dc_link_args", "LDFLAGS"):
        return all(word in _OUR_LINKER_FLAGS or _PAGE_SIZE.fullmatch(word) for word in value.split())
    return _PLAIN_OPTION.fullmatch(option) is not None


def missing(macros: str, has: set[str]) -> list[str]:
    """The instruction sets that the compiler may use and the CPU lacks; empty for an unknown CPU.

    >>> missing("#define __AVX2__ 1\\n#define __BMI2__ 1\\n", {"avx2"})
    ['bmi2']
    """
    if not has:
        return []
    defined = set(_DEFINED.findall(macros))
    return [flag for macro, flag in _SETS.items() if macro in defined and flag not in has]


def cpu_flags(cpuinfo: str) -> set[str]:
    """The CPU's instruction sets, by the kernel's names.

    >>> sorted(cpu_flags("processor\\t: 0\\nflags\\t\\t: fpu avx2\\n"))
    ['avx2', 'fpu']
    """
    found = _FLAGS.search(cpuinfo)
    return set(found[1].split()) if found else set()


def _complaint(stderr: str) -> str:
    """The first error message of the compiler or assembler."""
    found = _ERROR.search(stderr)
    return one_line(found[1] if found else stderr.strip() or "it gives no reason")[:200]
