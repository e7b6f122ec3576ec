"""One command in a child of this process: at a fixed time, on a disk that may stop it at any change.

The child is forked, so it has everything loaded. ``ctime`` cannot be set: the child sees the time at which a file was
changed on the clock of the life.
"""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main as command
from cleaner.engine import only_copies
from cleaner.engine.clock import SystemClock
from cleaner.engine.doctor import sweeping
from policies.facts import Boot
from storage import segment
from storage.filesystem import FileSystem, Purpose
from storage.log_dir import LogDir
from storage.names import LOCK_FILE
from tests.crash.acts import _space_alone
from tests.crash.power import Disk, Left, RecordingFileSystem
from tests.crash.stops import FailingAt, KillingAt
from tests.faults import FullDisk

_SEAM: Final = (
    "create",
    "open_to_append",
    "open_to_write",
    "rename",
    "move_dir",
    "make_dir",
    "unlink",
    "remove_dir",
    "fsync_dir",
    "truncate",
)
_NEEDS_SPACE: Final = frozenset(Purpose) - {Purpose.LOCK, Purpose.REMOVE}
_COARSE: Final = 5
"""CLOCK_REALTIME_COARSE, which Python does not name."""
CRASHED: Final = 70
"""The exit status of a child whose command raised."""


@cache
def load_everything() -> None:
    """Load into this process what children would each load anew: modules, and the compiled kernels."""
    with tempfile.TemporaryDirectory() as scratch:
        log_dir = Path(scratch, "demo")
        config, server = Path(scratch, "config.toml"), Path(scratch, "server.properties")
        config.write_text('[topics.orders]\n"cleanup.policy" = "compact"\n')
        server.write_text("node.id=1\nlog.retention.ms=3600000\n")
        words = ["--log-dir", str(log_dir), "--config", str(config)]
        for first in (
            ["demo", str(log_dir)],
            ["clean", "--json", "--dry-run", "--exact", *words],
            ["clean", "--json", "--yes", "--delete-delay", "0", *words],
            ["free", "--target", "100%", "--compact", "--json", "--yes", "--server-properties", str(server), *words],
            ["free", "--target", "1%", *words],
            ["config", "apply", *words],
            ["doctor", *words],
            ["verify", *words],
            ["preflight", *words],
            ["restore", *words],
            ["explain", "orders-0", *words],
            ["history", *words],
            ["topics", *words],
            ["config", "show", *words],
            ["digest", "--output", f"{scratch}/digest", *words],
            ["prove-erased", "nobody", *words],
            ["delete-records", "clicks-0", "--before-offset", "1", "-n", *words],
            ["erase", "nobody", "--topic", "orders", "--yes", *words],
        ):
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                if command(first) == ExitStatus.SIGINT:
                    raise KeyboardInterrupt
            log_dir.chmod(0o777)  # which the next command warns of, in a line of the log
        gc.freeze()


class Told(NamedTuple):
    """How a command ended, and what it said."""

    words: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    was_stopped: bool = False
    """Whether SIGKILL or a power loss ended it."""
    undone: tuple[str, ...] = ()
    """Files that a power loss behind its end took back: those that it had not made last."""
    lost_power: bool = False
    """Whether a power loss ended it, which may leave any of the changes that were not made last."""

    @property
    def document(self) -> Mapping[str, Any] | None:
        """The JSON document that it printed; None if it printed none, or not to its end."""
        try:
            read = json.loads(self.stdout)
        except ValueError:
            return None
        return read if isinstance(read, dict) else None


@dataclass(slots=True)
class LifeClock:
    """The clock of a life: it stands still within a step."""

    now_ms: int
    booted_ms: int
    moments: list[tuple[int, int]] = field(default_factory=list)
    """Real time in ns, and what the clock of the life said from then on, in ms."""
    _copied: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Inode and change time (ns) of a file of a copy: the change time of its original, which no copy keeps."""

    @property
    def latest_ms(self) -> int:
        """The latest time that it ever told: what expired then is forgotten, also if the clock was set back since."""
        return max(ms for _, ms in self.moments)

    @classmethod
    def from_now(cls) -> LifeClock:
        """Begin a day from now: all that files say is past."""
        now_ms = (_coarse_ns() // 1_000_000 // 1000 + 86_400) * 1000
        clock = cls(now_ms, now_ms - 10 * 86_400_000)
        clock.passes(0)
        return clock

    def passes(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms
        before = _coarse_ns()
        while _coarse_ns() <= before:
            pass
        self.moments.append((_coarse_ns(), self.now_ms))

    def is_set(self, ms: int) -> None:
        """Set the wall clock by so much, while no time passes."""
        self.booted_ms += ms
        self.passes(ms)

    def ahead_to(self, now_ms: int) -> LifeClock:
        """Return a clock that agrees on what was, and says another time from now on."""
        other = LifeClock(self.now_ms, self.booted_ms, list(self.moments))
        other.passes(now_ms - self.now_ms)
        return other

    def knows_copy(self, original: Path, copy: Path) -> None:
        """See the files of a copy as those of the original, until something changes them."""
        both = [(path.stat(), (original / path.relative_to(copy)).stat()) for path in copy.rglob("*")]
        self._copied = {(new.st_ino, new.st_ctime_ns): old.st_ctime_ns for new, old in both}

    def changed_ns(self, status: os.stat_result) -> int:
        """Return when a file was changed, by the clock of the life."""
        ns = self._copied.get((status.st_ino, status.st_ctime_ns), status.st_ctime_ns)
        return self.seen_ns(ns)

    def seen_ns(self, ns: int) -> int:
        """Return the time of the life at a real moment."""
        place = bisect_right(self.moments, (ns, 1 << 62))
        return self.moments[max(place - 1, 0)][1] * 1_000_000


def _coarse_ns() -> int:
    """Return the clock by which a kernel stamps files."""
    return time.clock_gettime_ns(_COARSE)


@dataclass(frozen=True, slots=True)
class Stop:
    """What ends a command, before its change number ``at``; behind its last one the power goes all the same."""

    kind: str
    at: int
    dice: int = 0


Breaks = Callable[[], None]


def run(
    words: Sequence[str],
    clock: LifeClock,
    room: Path,
    log_dir: Path,
    stop: Stop | None = None,
    breaks: Breaks | None = None,
    others: tuple[Path, ...] = (),
) -> Told:
    """Run ``logcleaner WORD...``, and wait for its end.

    Args:
        words: behind ``logcleaner``.
        clock: of the life.
        room: where output may lie.
        log_dir: that loses power.
        stop: what ends it early.
        breaks: makes a broken twin of the program, in the child alone.
        others: further log dirs that lose power, too.
    """
    return wait_for(start(words, clock, room, log_dir, stop, breaks, others))


class Started(NamedTuple):
    """A command that runs."""

    words: tuple[str, ...]
    pid: int
    out: Path
    log_dirs: tuple[Path, ...]


_numbers = iter(range(1 << 30))


def start(
    words: Sequence[str],
    clock: LifeClock,
    room: Path,
    log_dir: Path,
    stop: Stop | None = None,
    breaks: Breaks | None = None,
    others: tuple[Path, ...] = (),
) -> Started:
    """Start a command, as ``run``."""
    out = room / f"told-{next(_numbers)}"
    sys.stdout.flush(), sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _be_the_command(list(words), clock, out, (log_dir, *others), stop, breaks)
    return Started(tuple(words), pid, out, (log_dir, *others))


def log_of(started: Started) -> str:
    """Return what a command that runs has told on stderr."""
    path = started.out.with_suffix(".err")
    return path.read_text(errors="replace") if path.exists() else ""


def wait_for(started: Started) -> Told:
    """Wait for the end; behind a power loss, leave the log dir as the disk kept it."""
    _, status = os.waitpid(started.pid, 0)
    out, err, left = (started.out.with_suffix(suffix) for suffix in (".out", ".err", ".left"))
    said, complained = (path.read_text(errors="replace") if path.exists() else "" for path in (out, err))
    undone: tuple[str, ...] = ()
    if has_lost_power := left.exists():
        kept, renamed = pickle.loads(left.read_bytes())
        undone = tuple(_differing(kept, started.log_dirs))
        _lay_down(kept, renamed, started.log_dirs)
    for path in (out, err, left):
        path.unlink(missing_ok=True)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Told(started.words, -number, said, complained, number == signal.SIGKILL, lost_power=has_lost_power)
    return Told(started.words, os.waitstatus_to_exitcode(status), said, complained, undone=undone)


def _be_the_command(
    words: list[str],
    clock: LifeClock,
    out: Path,
    log_dirs: tuple[Path, ...],
    stop: Stop | None,
    breaks: Breaks | None,
) -> None:
    status = CRASHED
    try:
        for number, path in ((1, out.with_suffix(".out")), (2, out.with_suffix(".err"))):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))
        os.environ["XDG_CACHE_HOME"] = str(out.with_name("cache"))  # of the command, not of this process
        with at_life_time(clock):
            if breaks:
                breaks()
            disk = _disk_of(stop, log_dirs, out.with_suffix(".left")) if stop else None
            if disk:
                put_under(disk)
            status = command(words)
            if isinstance(disk, _PowerGoes):
                disk.goes_behind_the_end()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


class at_life_time:  # noqa: N801 - reads as a function
    """Set all that tells the time in this process to the clock of a life."""

    def __init__(self, clock: LifeClock) -> None:
        as_listed = segment.listed

        def listed(directory: Path, file_name: str, name: Any, status: os.stat_result) -> segment.SegmentFile:
            return as_listed(directory, file_name, name, status)._replace(changed_ns=clock.changed_ns(status))

        def changed_ns_of(path: Path) -> int | None:
            return clock.changed_ns(path.stat()) if path.exists() else None

        space_of = LogDir.space
        self._patches: list[Any] = [
            patch.object(SystemClock, "now_ms", lambda _: clock.now_ms),
            patch.object(SystemClock, "boot", lambda _: Boot("life", clock.booted_ms)),
            patch.object(LogDir, "space", lambda log_dir: _space_alone(space_of, log_dir)),
            patch("storage.lock.SETTLE_SECONDS", 0.0),
            patch.object(segment, "listed", listed),
            patch.object(sweeping, "listed", listed),
            patch.object(only_copies, "changed_ns_of", changed_ns_of),
        ]

    def __enter__(self) -> None:
        for one in self._patches:
            one.start()

    def __exit__(self, *_raised: object) -> None:
        for one in reversed(self._patches):
            one.stop()


# ---- disks that stop a command ------------------------------------------------------------------------------------


class _PowerGoes(RecordingFileSystem):
    """Leaves what a power loss before one step may leave, and ends the process; or what lasts behind the last step."""

    def __init__(self, log_dirs: tuple[Path, ...], stop: Stop, left: Path) -> None:
        super().__init__(log_dirs[0], self._before)
        for other in map(Disk.of, log_dirs[1:]):
            self.disk.names.update(other.names)
            self.disk.durable.update(other.durable)
        self._stop, self._left, self._steps = stop, left, 0

    def _before(self, disk: Disk) -> None:
        if self._steps == self._stop.at:
            dice = Random(self._stop.dice)
            self._leave(dice.choice(list(disk.after_power_loss(dice))))
            os.kill(os.getpid(), signal.SIGKILL)
        self._steps += 1

    def goes_behind_the_end(self) -> None:
        """Leave what lasts, and no more."""
        self._leave(self.disk.durable_alone())

    def _leave(self, left: Left) -> None:
        renamed = [change.target for change in self.disk.pending if change.inode is None]
        self._left.write_bytes(pickle.dumps((dict(left), renamed)))


def _disk_of(stop: Stop, log_dirs: tuple[Path, ...], left: Path) -> FileSystem:
    match stop.kind:
        case "kill":
            return KillingAt(stop.at)
        case "power":
            return _PowerGoes(log_dirs, stop, left)
        case "full":
            return FullDisk(stop.at, _NEEDS_SPACE)
        case "error":
            return FailingAt(stop.at)
    raise ValueError(stop.kind)


def put_under(disk: FileSystem) -> None:
    """Have every plain file system of this process be that disk."""
    for name in _SEAM:
        whole = getattr(FileSystem, name)

        def of_disk(self: FileSystem, *given: Any, _name: str = name, _whole: Callable[..., Any] = whole) -> Any:
            return getattr(disk, _name)(*given) if type(self) is FileSystem else _whole(self, *given)

        setattr(FileSystem, name, of_disk)


def _differing(left: Left, log_dirs: tuple[Path, ...]) -> Iterator[str]:
    """Yield the files that are there, or as they are, only until the power goes.

    A lock need not last, nor the rename of a snapshot that became useless: one more run repeats it.
    """
    now = {path for log_dir in log_dirs for path in log_dir.rglob("*") if path.is_file()}
    for path in sorted(now | {path for path in left if any(path.is_relative_to(one) for one in log_dirs)}):
        if path.name == LOCK_FILE or path.name.endswith(".snapshot.deleted"):
            continue
        is_retired = path not in now and path.with_name(path.name + ".deleted") in now
        if path.suffix == ".snapshot" and is_retired:
            continue
        if path not in now or path not in left or path.read_bytes() != left[path].content:
            yield str(path.relative_to(log_dirs[0].parent))


def _lay_down(left: Left, renamed: list[Path], log_dirs: tuple[Path, ...]) -> None:
    """Make the files of log dirs those that a power loss left; what it did not touch stays untouched.

    ``renamed``: directories that got their names last; one without a file that is left has its name no more.
    """
    for path in [path for log_dir in log_dirs for path in log_dir.rglob("*") if path.is_file() and path not in left]:
        path.unlink()
    for path, kept in left.items():
        if any(path.is_relative_to(log_dir) for log_dir in log_dirs):
            path.parent.mkdir(parents=True, exist_ok=True)
            kept.put(path)
    for directory in renamed:
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
