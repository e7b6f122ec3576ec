"""The files of a log dir, read and written: bytes <-> meaning. Nothing is decided here.

Nouns:
    LogDir: one directory of ``log.dirs``: its lock, its checkpoints, the partitions found (``log_dir``).
    Log: one partition with a life: segments, offsets, append, roll, read, look up (``log``).
    Segment: a ``.log`` and its companions (``segment``). Batches are in ``records``, the hot path in ``kernels``.
    FileSystem: the one seam through which every mutation goes (``filesystem``); ``swap`` and ``recovery`` use it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.log import Log
    from storage.log_dir import LogDir

__all__ = ["Log", "LogDir"]


_HOMES = {"Log": "storage.log", "LogDir": "storage.log_dir"}


def __getattr__(name: str) -> object:
    """Load ``Log`` or ``LogDir`` when it is first asked for, so that ``storage.names`` alone stays cheap."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(name)
