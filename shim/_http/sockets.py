"""Ends an exchange that blocks in another thread by shutting down its socket: nothing else interrupts a blocking read.

The connection is found in the pool by our own `timeout` extension, which the libraries hand through untouched. That
walk uses their private names; where one is missing the exchange ends at its per-operation timeout instead.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from shim._http.intake import Limits


def shut(client: Any, request: Any, limits: Limits) -> None:
    """Shut down the connection that carries `request`, if it has one yet."""
    limits.is_aborted = True
    with contextlib.suppress(Exception):
        pool = getattr(client._transport_for_url(request.url), "_pool", None)
        for waiting in list(getattr(pool, "_requests", ())):
            if waiting.request.extensions.get("timeout") is limits:
                _shut_connection(waiting.connection)


def _shut_connection(connection: Any) -> None:
    while getattr(connection, "_connection", None) is not None:
        connection = connection._connection
    stream = getattr(connection, "_network_stream", None)
    found = stream.get_extra_info("socket") if stream is not None else None
    if isinstance(found, socket.socket):
        with contextlib.suppress(OSError):
            socket.socket.shutdown(found, socket.SHUT_RDWR)  # not SSLSocket's: it would wait for a lock of the reader


def sweep(client: Any, request: Any) -> None:
    """Take connections that belong to no request out of an async client's pool, and end them.

    The libraries clean up after a cancelled exchange by awaiting, and a second cancellation cuts that short: the
    connection then stays in the pool, busy for ever, and a pool of four is full after four of them. Call it after a
    cancellation, in the client's own event loop.
    """
    with contextlib.suppress(Exception):
        _end_orphans(client._transport_for_url(request.url)._pool)


def drop(response: Any) -> None:
    """As `sweep`, for the async response of a stream whose closing may have been cut short by a cancellation."""
    with contextlib.suppress(Exception):
        stream: Any = response.stream
        while not hasattr(stream, "_pool_request"):
            stream = stream._httpcore_stream if hasattr(stream, "_httpcore_stream") else stream._stream
        pool, taken = stream._pool, stream._pool_request
        if taken in pool._requests:
            pool._requests.remove(taken)
        _end_orphans(pool)


def _end_orphans(pool: Any) -> None:
    taken = {id(waiting.connection) for waiting in pool._requests}
    for connection in list(pool._connections):
        is_free = connection.is_idle() or connection.is_closed() or connection.is_available()
        if id(connection) not in taken and not is_free:
            pool._connections.remove(connection)
            _abort(connection)


def _abort(connection: Any) -> None:
    while getattr(connection, "_connection", None) is not None:
        connection = connection._connection
    stream: Any = getattr(getattr(connection, "_network_stream", None), "_stream", None)
    while getattr(stream, "transport_stream", None) is not None:  # TLS: down to the socket's own
        stream = stream.transport_stream
    transport = getattr(stream, "_transport", None)
    if transport is not None:
        transport.abort()
