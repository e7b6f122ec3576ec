"""Unlinked files: no directory names them, and ``du`` does not see them, but a process keeps them, and so their blocks.

A broker keeps a ``.log`` open, and its index files mapped, that somebody removed by hand. They take space until it
closes them, at the latest when it ends. The kernel tells of open files in ``/proc/PID/fd``, and of mapped ones, to root
alone, in ``/proc/PID/map_files``.

Source: proc(5).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cleaner.engine.space.account import Amount, FileSystemAccount, UnlinkedFile, UnlinkedFiles
from policies.rescue import Volume
from storage.segment import BLOCK_BYTES

PROC: Final = Path("/proc")
LARGEST_MAX: Final = 10
_MARK: Final = " (deleted)"
"""The words that the kernel adds to the last path of an unlinked file. A file that still has a name may end so, too."""

Inode = tuple[int, int]


def file_systems_of(volumes: Iterable[Volume], proc: Path = PROC) -> tuple[FileSystemAccount, ...]:
    """Return the file systems, each with the unlinked files on it that this user may see."""
    devices = {volume: os.stat(volume.log_dirs[0]).st_dev for volume in volumes}  # noqa: PTH116 - a path as text
    unlinked = unlinked_files(frozenset(devices.values()), proc)
    return tuple(FileSystemAccount(volume, unlinked[device]) for volume, device in devices.items())


def unlinked_files(devices: frozenset[int], proc: Path = PROC) -> Mapping[int, UnlinkedFiles]:
    """Return the unlinked files on each of some devices. A file that several processes have open counts once."""
    try:
        pids = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())  # noqa: PTH208 - names alone
    except OSError:
        return dict.fromkeys(devices, UnlinkedFiles())
    found: dict[Inode, UnlinkedFile] = {}
    hidden = 0
    for pid in pids:
        try:
            opened = _of_process(proc / str(pid), devices)
        except PermissionError:
            hidden += 1
            continue
        for inode, file in opened.items():
            before = found.get(inode)
            found[inode] = before._replace(processes=before.processes + 1) if before else file
    by_device: defaultdict[int, list[UnlinkedFile]] = defaultdict(list)
    for (device, _), file in found.items():
        by_device[device].append(file)
    return {device: _summed(by_device[device], hidden) for device in devices}


def _summed(files: Sequence[UnlinkedFile], hidden_processes: int) -> UnlinkedFiles:
    total = Amount(len(files), sum(f.apparent_bytes for f in files), sum(f.disk_bytes for f in files))
    by_size = sorted((f for f in files if f.disk_bytes), key=lambda file: (-file.disk_bytes, file.pid, file.path))
    return UnlinkedFiles(total, tuple(by_size[:LARGEST_MAX]), hidden_processes)


def _of_process(process: Path, devices: frozenset[int]) -> Mapping[Inode, UnlinkedFile]:
    """Return the unlinked files of a process; none if it has ended. Raises: PermissionError."""
    found: dict[Inode, UnlinkedFile] = {}
    with suppress(FileNotFoundError, ProcessLookupError):
        command = (process / "comm").read_text(errors="surrogateescape").removesuffix("\n")
        for link in (*_descriptors(process), *_mappings(process)):
            with suppress(OSError):  # closed since, or a mapping that only root may follow
                path = os.readlink(link)  # noqa: PTH115 - there are thousands
                if not path.endswith(_MARK):
                    continue
                status = os.stat(link)  # noqa: PTH116 - it is not the path that it shows
                if status.st_nlink == 0 and status.st_dev in devices:
                    name, disk_bytes = path.removesuffix(_MARK), status.st_blocks * BLOCK_BYTES
                    pid, unlinked_ms = int(process.name), status.st_ctime_ns // 1_000_000
                    file = UnlinkedFile(name, pid, command, 1, status.st_size, disk_bytes, unlinked_ms)
                    found.setdefault((status.st_dev, status.st_ino), file)
    return found


def _descriptors(process: Path) -> Iterator[str]:
    directory = f"{process}/fd"
    return (f"{directory}/{name}" for name in os.listdir(directory))  # noqa: PTH208 - names alone, of thousands


def _mappings(process: Path) -> Iterator[str]:
    """Yield the links of the mapped files without a name. A broker maps thousands of files: the text names them all."""
    with suppress(PermissionError):  # another security module than the one that guards the descriptors
        for line in (process / "maps").read_bytes().split(b"\n"):
            if line.endswith(_MARK.encode()):
                start, _, end = line.partition(b" ")[0].decode().partition("-")
                yield f"{process}/map_files/{int(start, 16):x}-{int(end, 16):x}"
