"""What speaks just enough of PostgreSQL's protocol to be connected to: it accepts everybody, and answers no query."""

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


@dataclass
class Heard:
    """The parameters of each start-up packet that came, and what was answered where a password was asked for."""

    startups: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    passwords: list[bytes] = field(default_factory=list[bytes])


@contextmanager
def answering(listener: socket.socket, *, asks_password: bool = False) -> Generator[Heard, None, None]:
    """Answers, in a thread, each client of a listening socket, one after the other; it may ask for a password first."""
    heard = Heard()
    thread = threading.Thread(target=_serve, args=(listener, heard, asks_password))
    thread.start()
    try:
        yield heard
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _serve(listener: socket.socket, heard: Heard, asks_password: bool) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, suppress(OSError, struct.error):
            _greet(client, heard, asks_password)


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
    while client.recv(4096):  # until the client leaves
        pass


def _exactly(client: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length:
        more = client.recv(length - len(content))
        if not more:
            raise OSError
        content += more
    return content
