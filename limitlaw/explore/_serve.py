"""The web server around the explorer."""

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ._server import create_app

_HEADER_SECONDS = 5.0  # in which a request must have said what it asks for


class PatientProtocol(H11Protocol):
    """HTTP that closes a connection whose request does not arrive; uvicorn has no limit for that."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def shutdown(self) -> None:
        """Drop the answer that is under way: at an interrupt nobody waits for it."""
        super().shutdown()
        self.transport.close()

    def _watch(self) -> None:
        """Set a deadline while a request is incomplete, and none while it is answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(_HEADER_SECONDS, self._close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def serve(listening: socket.socket, token: str | None, load: Sequence[Path] = ()) -> None:
    """Answer until an interrupt.

    Args:
        listening: The socket that listens.
        token: The access token that a request must bring; None if none is needed.
        load: Python files that define layers.
    """
    config = uvicorn.Config(
        create_app(token, warm=True, load=load),
        http=PatientProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listening])
