"""The network guard of the tests: loopback is open, every other connection raises an error."""

import asyncio
import socket

import pytest

OUTSIDE = [("192.0.2.1", 80), ("example.invalid", 80), ("2001:db8::1", 443)]


@pytest.mark.parametrize("address", OUTSIDE)
def test_connections_outside_are_refused(address: tuple[str, int]) -> None:
    with pytest.raises(RuntimeError, match=r"127\.0\.0\.1"):
        socket.create_connection(address, timeout=1)


def test_plain_sockets_and_event_loops_are_refused_too() -> None:
    with socket.socket() as plain, pytest.raises(RuntimeError, match="connect"):
        plain.connect(("192.0.2.1", 80))
    with pytest.raises(RuntimeError, match=r"192\.0\.2\.1"):
        asyncio.run(asyncio.open_connection("192.0.2.1", 80))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_open(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection((host, server.getsockname()[1]), timeout=5).close()
