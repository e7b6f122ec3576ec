"""Mounts: the file system that a path lies on tells whether a lock taken there keeps everybody out.

On a network file system, or a folder that a virtual machine shares with its host, a lock may be this machine's alone: a
broker on another one would start beside us.

Source: proc(5), ``/proc/PID/mountinfo``. Not chosen: ``statfs``: all of FUSE is one number to it.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import Final

from storage.errors import ErrorKind, LogCleanerError

MOUNT_INFO: Final = Path("/proc/self/mountinfo")
SHARED_TYPES: Final = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph",
    "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys", "fuse.juicefs",
    "fuse.mfs", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs", "fuse.vmhgfs-fuse", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs",
})  # fmt: skip
"""File systems that other machines may have open at the same time."""
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_MOUNT_POINT, _SEPARATOR = 4, "-"


class UnreliableLock(LogCleanerError):
    """A ``.lock`` that may not keep a broker out, because of the file system that it lies on."""

    kind = ErrorKind.REFUSED

    path: Path
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.cause}: its lock may not keep a broker or another logcleaner out; make sure that none "
            f"runs on any machine, then say --force-lock"
        )


def shared_type(path: Path, mount_info: Path = MOUNT_INFO) -> str | None:
    """Return the type of the file system that a path lies on if other machines may share it; else None.

    Args:
        path: absolute, symlinks resolved.
        mount_info: of this process. Where it cannot be read, nothing is known to be shared.
    """
    try:
        text = mount_info.read_text(errors="surrogateescape")
    except OSError:
        return None
    found = type_of(path, text)
    return found if found in SHARED_TYPES else None


def type_of(path: PurePath, mount_info: str) -> str | None:
    """Return the type of the file system that a path lies on; None if no line tells.

    Args:
        path: absolute, symlinks resolved.
        mount_info: lines of ``/proc/PID/mountinfo``, in the order of the mounts: of two at one place the later holds.
    """
    deepest, found = -1, None
    for line in mount_info.splitlines():
        fields = line.split(" ")
        if _SEPARATOR not in fields[_MOUNT_POINT + 1 : -1]:
            continue
        point = PurePath(_OCTAL.sub(_character, fields[_MOUNT_POINT]))
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), fields[fields.index(_SEPARATOR, _MOUNT_POINT) + 1]
    return found


def _character(escape: re.Match[str]) -> str:
    """Return the character that an octal escape stands for: blank, tab, newline or backslash."""
    return chr(int(escape[1], 8))
