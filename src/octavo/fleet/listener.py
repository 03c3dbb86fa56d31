"""The fleet's listener. Anybody who can reach its address can connect: a connection without a certificate is closed
after a few seconds, and the number of such connections is limited, so that the fleet's own always get a descriptor."""

import resource
from typing import Any

from distributed.comm import tcp
from distributed.comm.registry import backends
from tornado.ioloop import IOLoop

HANDSHAKE_SECONDS = 10.0
# All hosts of a fleet may connect at the same moment, before any has shown its certificate.
_MOST_STRANGERS, _PART_OF_DESCRIPTORS = 512, 4


def most_strangers() -> int:
    """How many connections may be without a certificate at once: at most a quarter of this process's descriptors."""
    return min(_MOST_STRANGERS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _PART_OF_DESCRIPTORS)


class GuardedListener(tcp.TLSListener):
    """Dask's TLS listener with a timeout for handshakes, which Dask's own lacks."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        dask: Any = super()  # Dask is only partly typed
        dask.__init__(*arguments, **options)
        self._most = most_strangers()
        # Connections that have not shown a certificate yet, the oldest first.
        self._strangers: dict[Any, None] = {}

    async def _prepare_stream(self, stream: Any, address: Any) -> Any:
        while len(self._strangers) >= self._most:
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
    """Dask's TLS backend with this listener."""

    _listener_class = GuardedListener


def guard() -> None:
    """Makes every TLS listener of this process a GuardedListener."""
    backends["tls"] = GuardedBackend()
