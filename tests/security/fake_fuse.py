"""A FUSE filesystem as a user may mount one, without a library: it reports its files and directories as root's.

    python fake_fuse.py DIRECTORY PROGRAM ARGUMENTS…

mounts it on the directory as a filesystem of nobody's that root can enter, runs the program, and ends with its exit
code. It must be root, in a mount namespace of its own. The kernel's protocol: include/uapi/linux/fuse.h.
"""

import ctypes
import os
import stat
import struct
import subprocess
import sys

NOBODY = 65534
_CONTENT = b"\x7fELF" + bytes(100) + b"buffer__read__done"
_FORGET, _DESTROY, _INTERRUPT, _BATCH_FORGET = 2, 38, 36, 42
_NO_SUCH, _NOT_OFFERED = -2, -38
# By node number: mode, content of a file or target of a link, and names with their numbers in a directory.
_NODES: dict[int, tuple[int, bytes, dict[bytes, int]]] = {
    1: (stat.S_IFDIR | 0o755, b"", {b"postgres": 2, b"link": 3, b"directory": 4}),
    2: (stat.S_IFREG | 0o755, _CONTENT, {}),
    3: (stat.S_IFLNK | 0o777, b"/etc/hostname", {}),
    4: (stat.S_IFDIR | 0o755, b"", {}),
}


def _attributes(node: int) -> bytes:
    mode, content, _ = _NODES[node]
    return struct.pack("<6Q10I", node, len(content), 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(operation: int, node: int, body: bytes) -> bytes | int:
    """The answer; a number is an error."""
    if operation == 26:  # INIT
        return struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, 0, *[0] * 7)
    if operation == 1:  # LOOKUP
        found = _NODES[node][2].get(body.rstrip(b"\0"))
        return _NO_SUCH if found is None else struct.pack("<4Q2I", found, 0, 0, 0, 0, 0) + _attributes(found)
    if operation == 3:  # GETATTR
        return struct.pack("<Q2I", 0, 0, 0) + _attributes(node)
    if operation == 5:  # READLINK
        return _NODES[node][1]
    if operation in (14, 27):  # OPEN, OPENDIR
        return struct.pack("<Q2I", 0, 0, 0)
    if operation == 15:  # READ
        _, offset, size = struct.unpack("<2QI", body[:20])
        return _NODES[node][1][offset : offset + size]
    if operation == 17:  # STATFS
        return struct.pack("<5Q10I", 0, 0, 0, 0, 0, 4096, 255, 4096, 0, *[0] * 6)
    if operation in (18, 25, 28, 29, 34):  # RELEASE, FLUSH, READDIR, RELEASEDIR, ACCESS
        return b""
    return _NOT_OFFERED


def _serve(device: int) -> None:
    while True:
        request = os.read(device, 1 << 20)
        _, operation, unique, node = struct.unpack("<2I2Q", request[:24])
        if operation in (_FORGET, _BATCH_FORGET, _INTERRUPT):
            continue
        if operation == _DESTROY:
            return
        answer = _answer(operation, node, request[40:])
        error, content = (answer, b"") if isinstance(answer, int) else (0, answer)
        os.write(device, struct.pack("<IiQ", 16 + len(content), error, unique) + content)


def main() -> int:
    """Mounts, runs, and returns the exit code; 77 if nobody may not mount one on this host."""
    directory, *command = sys.argv[1:]
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        return 77
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id={NOBODY},group_id={NOBODY},allow_other"
    if libc.mount(b"fake", directory.encode(), b"fuse.fake", 6, options.encode()) != 0:  # MS_NOSUID | MS_NODEV
        return 77
    server = os.fork()
    if server == 0:
        try:
            _serve(device)
        finally:
            os._exit(0)
    os.close(device)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        os.kill(server, 9)
        os.waitpid(server, 0)


if __name__ == "__main__":
    sys.exit(main())
