"""`limitlaw explore`: the explorer, served on this machine."""

import errno
import secrets
import socket
import threading
import webbrowser
from typing import Annotated

import typer

from .._checks import missing_package
from .._load import load_modules
from ._options import LoadedFiles

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERY = ("0.0.0.0", "::")  # no address to open: this machine's name is


def explore(
    host: Annotated[
        str,
        typer.Option(help="Address to listen on. Addresses that other machines reach need the token that is printed."),
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8642,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    load: LoadedFiles = None,
) -> None:
    """Open the interactive explorer in a browser."""
    load_modules(load)
    with _listening(host, port) as listening:
        try:
            from ..explore._serve import serve
            from ..explore._server import plotly_script

            plotly_script()
        except ModuleNotFoundError as error:
            raise RuntimeError(missing_package(str(error.name), "explore")) from None
        token = None if host in _LOOPBACK else secrets.token_urlsafe(16)
        address = _address(host, listening.getsockname()[1], token)
        typer.echo(f"limitlaw explore: {address} (Ctrl-C ends it)")
        if open_:
            # it waits at the socket until the server is up, and some browsers return only when they are closed
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        serve(listening, token, load or ())


def _address(host: str, port: int, token: str | None) -> str:
    name = socket.gethostname() if host in _EVERY else host
    address = f"http://{f'[{name}]' if ':' in name else name}:{port}/"
    return address if token is None else f"{address}?access={token}"


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. A port in use is refused before anything slow is imported."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise ValueError(
            f"--host {host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all interfaces."
        ) from None
    listening = socket.socket(family, kind, protocol)  # named, or asyncio would leave small packets waiting
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"--port {port} is in use. Choose another port, or 0 for any free one.") from None
        raise ValueError(f"--host {host} --port {port} cannot be used: {error.strerror}. Choose others.") from None
    return listening
