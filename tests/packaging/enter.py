"""Starts a program as a container runtime does: ``unshare --mount --pid --net --fork python enter.py SPECIFICATION``.

It becomes the program, which so is process 1. The specification is the JSON of ``tests.packaging.containers``.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

DEVICES = ("null", "zero", "full", "random", "urandom")
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
CAPABILITIES_MAX = 64
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1


def mount(*arguments: str | Path) -> None:
    """Mount something, for this namespace alone."""
    subprocess.run(["mount", *arguments], check=True, env={"PATH": os.environ["PATH"]})


def main(specification: dict) -> None:
    """Prepare the root, give up every privilege, and start the program."""
    root = Path(specification["root"])
    mount("--bind", root, root)
    mount("-t", "proc", "proc", root / "proc")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root / "dev")
    for device in DEVICES:
        (root / "dev" / device).touch()
        mount("--bind", f"/dev/{device}", root / "dev" / device)
    for source, target, is_read_only in specification["mounts"]:
        mount("--bind", source, root / target.lstrip("/"))
        if is_read_only:
            mount("-o", "remount,bind,ro", root / target.lstrip("/"))
    mount("-o", "remount,bind,ro", root)
    loopback_up()
    os.chroot(root)
    os.chdir(specification["directory"])
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(CAPABILITIES_MAX):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that this kernel does not have fail
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    os.setgroups(specification["groups"])
    os.setresgid(*[specification["gid"]] * 3)
    os.setresuid(*[specification["uid"]] * 3)
    os.execve(specification["command"][0], specification["command"], specification["environment"])


def loopback_up() -> None:
    """Let the program listen on 127.0.0.1."""
    with socket.socket() as control:
        asked = struct.pack("16sh", b"lo", 0)
        name, flags = struct.unpack("16sh", fcntl.ioctl(control, SIOCGIFFLAGS, asked))
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", name, flags | IFF_UP))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
