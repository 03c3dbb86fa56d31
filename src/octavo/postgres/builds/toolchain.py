"""The tools that a build needs, and the identity of the compiler."""

import shutil

from octavo.errors import HostError
from octavo.host import children
from octavo.host.journal import Journal

_MESON_TOOLS = ("meson", "ninja", "ccache", "bison", "flex", "perl")
_MAKE_TOOLS = ("make", "ccache", "bison", "flex", "perl")


def check_tools(*, meson: bool) -> None:
    """Raises HostError when a tool is missing from the PATH of builds."""
    for tool in _MESON_TOOLS if meson else _MAKE_TOOLS:
        if shutil.which(tool, path=children.PLAIN_PATH) is None:
            raise HostError(f"{tool} is missing; script/bootstrap installs what a build needs")


def describe_compiler(compiler: str, journal: Journal) -> str:
    """The compiler's version and target machine, which are part of a build's key."""
    path = shutil.which(compiler, path=children.PLAIN_PATH)
    if path is None:
        raise HostError(f"the compiler {compiler} is missing; install it (script/bootstrap installs gcc only)")
    account = children.build_account()
    version, machine = (
        children.check(
            children.run([path, question], journal, role="compiler", account=account), "asking the compiler"
        ).stdout.strip()
        for question in ("--version", "-dumpmachine")
    )
    return f"{version.splitlines()[0]}, {machine}"
