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


def end_all(client: Any) -> None:
    """Close every connection of an async client whose event loop is closed, so that another loop may use the client."""
    with contextlib.suppress(Exception):
        for transport in (client._transport, *client._mounts.values()):
            pool = getattr(transport, "_pool", None)
            if pool is None:
                continue
            for connection in pool._connections:
                with contextlib.suppress(Exception):
                    _close_under(connection)
            pool._connections.clear()
            pool._requests.clear()


def end_late(client: Any) -> None:
    """Close what an exchange gave back to the pool of a sync client that another thread has closed meanwhile."""
    with contextlib.suppress(Exception):
        for transport in (client._transport, *client._mounts.values()):
            if transport is not None:
                transport.close()


def _close_under(connection: Any) -> None:
    """Close the socket itself: the transport could only ask its loop, which is closed."""
    transport = _transport_of(connection)
    found: Any = getattr(transport, "_sock", None)
    if found is not None:
        transport._sock = None  # else it complains when it is collected
        found.close()


def _end_orphans(pool: Any) -> None:
    taken = {id(waiting.connection) for waiting in pool._requests}
    for connection in list(pool._connections):
        is_free = connection.is_idle() or connection.is_closed() or connection.is_available()
        if id(connection) not in taken and not is_free:
            pool._connections.remove(connection)
            _abort(connection)


def _abort(connection: Any) -> None:
    transport = _transport_of(connection)
    if transport is not None:
        transport.abort()


def _transport_of(connection: Any) -> Any:
    while getattr(connection, "_connection", None) is not None:
        connection = connection._connection
    stream: Any = getattr(getattr(connection, "_network_stream", None), "_stream", None)
    while getattr(stream, "transport_stream", None) is not None:  # TLS: down to the socket's own
        stream = stream.transport_stream
    return getattr(stream, "_transport", None)
