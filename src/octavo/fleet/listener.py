"""The fleet's listener. Whoever can reach its address can connect: without a certificate he is let go after seconds,
and of such connections there are never many, so that those of the fleet always find a descriptor."""

from typing import Any

from distributed.comm import tcp
from distributed.comm.registry import backends
from tornado.ioloop import IOLoop

HANDSHAKE_SECONDS = 10.0
MOST_STRANGERS = 64


class GuardedListener(tcp.TLSListener):
    """Dask's, which waits for a handshake for ever."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        dask: Any = super()  # its types are partly unknown
        dask.__init__(*arguments, **options)
        # Who has shown no certificate yet, the oldest first.
        self._strangers: dict[Any, None] = {}

    async def _prepare_stream(self, stream: Any, address: Any) -> Any:
        while len(self._strangers) >= MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.close()
        self._strangers[stream] = None
        loop: Any = IOLoop.current()
        dask: Any = super()
        late = loop.call_later(HANDSHAKE_SECONDS, stream.close)
        try:
            return await dask._prepare_stream(stream, address)
        finally:
            loop.remove_timeout(late)
            self._strangers.pop(stream, None)


class GuardedBackend(tcp.TLSBackend):
    """TLS with this listener."""

    _listener_class = GuardedListener


def guard() -> None:
    """What listens with TLS in this process does so in this way."""
    backends["tls"] = GuardedBackend()
