"""`limitlaw explore`: the explorer, served on this machine."""

import errno
import os
import secrets
import socket
import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERY = ("0.0.0.0", "::")  # no address to open: this machine's name is


def explore(
    host: Annotated[str, typer.Option(help="Address to listen on; others than this machine's own need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8642,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """A page in the browser: turn the knobs of a layer, a deep network or a regression, and see exact laws."""
    with _listening(host, port) as listening:
        _serve(listening, host, open_)


def _serve(listening: socket.socket, host: str, open_: bool) -> None:
    try:
        import jax
        import uvicorn
        from threadpoolctl import threadpool_limits

        from .explore._memory import Room, few_arenas
        from .explore._server import create_app, plotly_script

        plotly_script()
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{error.name}: is not installed; run pip install 'limitlaw[explore]'.") from None
    from .numerics import keep_compiled

    few_arenas()
    jax.config.update("jax_traceback_in_locations_limit", 0)  # every program would carry where it was written
    threadpool_limits(1)  # products here are small, and threads that wait for a core of the browser's make them slow
    keep_compiled(_cache_folder())
    token = None if host in _LOOPBACK else secrets.token_urlsafe(16)
    name = socket.gethostname() if host in _EVERY else host
    address = f"http://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}/"
    address += "" if token is None else f"?access={token}"
    typer.echo(f"limitlaw explore: {address} (Ctrl-C ends it)")
    if open_:
        # it waits at the socket until the server is up, and some browsers return only when they are closed
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    app = create_app(token, warm=True, room=Room())
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket, before anything slow; one sentence where there is none to be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ValueError(f"--host {host}: there is no such address; use 127.0.0.1, or 0.0.0.0 for all.") from None
    listening = socket.socket(family, kind, protocol)  # named, or asyncio would leave small packets waiting
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"--port {port}: is in use; end what uses it, or choose another, or 0 for any.") from None
        raise ValueError(f"--host {host} --port {port}: {error.strerror}; choose others.") from None
    return listening


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limitlaw" / "compiled"
