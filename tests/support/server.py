"""The scripted loopback server of the testing kit, at the level of connections and bytes."""

from __future__ import annotations

from shim.testing.server import PATIENCE, Peer, Script, Seen, Server, head

__all__ = ["PATIENCE", "Peer", "Script", "Seen", "Server", "head"]
