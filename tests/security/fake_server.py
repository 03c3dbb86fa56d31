"""A program with just enough of PostgreSQL's protocol to be connected to: it accepts everybody, and answers no query,
or each with the same row."""

import socket
import struct
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# AuthenticationCleartextPassword, AuthenticationOk and ReadyForQuery (PostgreSQL's manual, "Message Formats").
_ASK = b"R" + struct.pack("!II", 8, 3)
_WELCOME = b"R" + struct.pack("!II", 8, 0) + b"Z" + struct.pack("!I", 5) + b"I"
_PROTOCOL = 3
_READY = b"Z" + struct.pack("!I", 5) + b"I"


@dataclass(frozen=True)
class Column:
    """The only column of every answer: its value, the type that it claims to have, name, and format (1: binary)."""

    value: bytes
    oid: int = 25
    name: bytes = b"answer"
    format: int = 0

    def answer(self) -> bytes:
        """RowDescription, DataRow, CommandComplete and ReadyForQuery."""
        described = self.name + b"\0" + struct.pack("!IHIHiH", 0, 0, self.oid, 65535, -1, self.format)
        return b"".join(
            (
                b"T" + struct.pack("!IH", 6 + len(described), 1) + described,
                b"D" + struct.pack("!IHI", 10 + len(self.value), 1, len(self.value)) + self.value,
                b"C" + struct.pack("!I", 4 + len(b"SELECT 1\0")) + b"SELECT 1\0" + _READY,
            )
        )


@dataclass
class Heard:
    """The parameters of each start-up packet received, and the answers to the request for a password."""

    startups: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    passwords: list[bytes] = field(default_factory=list[bytes])


@contextmanager
def answering(
    listener: socket.socket, *, asks_password: bool = False, column: Column | None = None
) -> Generator[Heard, None, None]:
    """Answers, in a thread, each client of a listening socket, one after another; it may ask for a password first.

    With a `column` each query gets that row.
    """
    heard = Heard()
    thread = threading.Thread(target=_serve, args=(listener, heard, asks_password, column))
    thread.start()
    try:
        yield heard
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _serve(listener: socket.socket, heard: Heard, asks_password: bool, column: Column | None) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, suppress(OSError, struct.error):
            _greet(client, heard, asks_password)
            if column is not None:
                _answer(client, column)
            while client.recv(4096):  # until the client disconnects
                pass


def _answer(client: socket.socket, column: Column) -> None:
    """Answers until the client disconnects."""
    while True:
        kind, length = struct.unpack("!cI", _exactly(client, 5))
        _exactly(client, length - 4)
        if kind == b"Q":
            client.sendall(column.answer())
        elif kind == b"X":
            raise OSError


def _greet(client: socket.socket, heard: Heard, asks_password: bool) -> None:
    while True:
        (length,) = struct.unpack("!I", _exactly(client, 4))
        content = _exactly(client, length - 4)
        if struct.unpack("!H", content[:2])[0] == _PROTOCOL:
            break
        client.sendall(b"N")  # no TLS, no GSS
    words = content[4:].decode().split("\0")
    heard.startups.append(dict(zip(words[::2], words[1::2], strict=False)))
    if asks_password:
        client.sendall(_ASK)
        _, length = struct.unpack("!cI", _exactly(client, 5))
        heard.passwords.append(_exactly(client, length - 4))
    client.sendall(_WELCOME)


def _exactly(client: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        more = client.recv(length - len(content))
        if not more:
            raise OSError
        content += more
    return content
