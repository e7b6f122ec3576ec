"""A ZooKeeper for the starts of Kafka 2.8, and how it forgets a broker that was killed.

The session of a killed broker lasts until its timeout, and no broker of the same id starts before. A short
timeout ends sessions of brokers that live, too, on a busy machine. So what a session leaves is deleted, by ZooKeeper's
own protocol.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.ports import free_port

SESSION_MS: Final = 10_000
_CONNECT: Final = struct.Struct(">iqiqi16s")
_DELETE: Final = 2
_ANY_VERSION: Final = -1
_LENGTH: Final = struct.Struct(">i")
_PATIENCE_SECONDS: Final = 30


@contextmanager
def zookeeper(jvm: list[str], scratch: Path) -> Iterator[str]:
    """Run a ZooKeeper by the command ``jvm``; gives its address."""
    port = free_port()
    properties = {
        "dataDir": str(scratch / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "admin.enableServer": "false",
        "maxClientCnxns": "0",
        "tickTime": "500",
    }
    path = scratch / "zookeeper.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    with (scratch / "zookeeper.out").open("wb") as output:
        process = subprocess.Popen(
            [*jvm, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(path)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def forget(address: str, *paths: str) -> None:
    """Delete some nodes, if they are there."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), _PATIENCE_SECONDS) as connection:
        _exchange(connection, _CONNECT.pack(0, 0, SESSION_MS, 0, 16, b""))
        for xid, path in enumerate(paths, 1):
            name = path.encode()
            _exchange(connection, struct.pack(f">iii{len(name)}si", xid, _DELETE, len(name), name, _ANY_VERSION))


def _exchange(connection: socket.socket, request: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(request)) + request)
    (size,) = _LENGTH.unpack(_received(connection, _LENGTH.size))
    _received(connection, size)


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "ZooKeeper ended the connection"
        data += more
    return data
