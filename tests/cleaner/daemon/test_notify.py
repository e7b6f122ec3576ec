"""What systemd is told, through a real socket."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from cleaner.daemon.daemon import Notifier


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        messages = []
        try:
            while True:
                messages.append(self._socket.recv(4096).decode())
        except BlockingIOError:
            return messages


@pytest.fixture(params=["path", "@abstract"])
def address(request, tmp_path):
    return str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path.name}-{os.getpid()}"


def test_each_message_as_systemd_wants_it(address):
    systemd, notifier = Systemd(address), Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.reloading()
    notifier.stopping()
    ready, reloading, stopping = systemd.heard()
    assert (ready, stopping) == ("READY=1", "STOPPING=1")
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading)


def test_a_status_is_told_once(tmp_path):
    systemd, notifier = Systemd(str(tmp_path / "s")), Notifier({"NOTIFY_SOCKET": str(tmp_path / "s")})
    for text in ("a", "a", "b"):
        notifier.status(text)
    assert systemd.heard() == ["STATUS=a", "STATUS=b"]


@pytest.mark.parametrize(
    ("story", "watchdog", "expected"),
    [
        ("no watchdog", {}, []),
        ("a watchdog", {"WATCHDOG_USEC": "60000000"}, ["WATCHDOG=1"]),
        ("ours", {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, ["WATCHDOG=1"]),
        ("another process's", {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, []),
        ("nonsense", {"WATCHDOG_USEC": "soon"}, []),
    ],
)
def test_signs_of_life_are_sent_as_often_as_asked(tmp_path: Path, story, watchdog, expected):
    systemd = Systemd(str(tmp_path / "s"))
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "s"), **watchdog})
    for _ in range(50):
        notifier.ping()
    assert systemd.heard() == expected, story


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/at/all"}])
def test_without_anybody_who_listens_nothing_is_sent(tmp_path, environment):
    systemd, notifier = Systemd(str(tmp_path / "s")), Notifier(environment)
    notifier.ready()
    notifier.close()
    notifier.status("closed")
    assert systemd.heard() == []


def test_once_closed_it_sends_nothing(address):
    systemd, notifier = Systemd(address), Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.close()
    notifier.status("closed")
    assert systemd.heard() == ["READY=1"]
