"""A whole command on a forgetting disk, cut after cut: what is left is judged by our recovery and by Kafka's loader."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from cleaner.engine.copy.manifest import MANIFEST_FILE
from cleaner.engine.journal import read_journal
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import FileState, parse_topic_partition
from tests.crash.acts import AT_MS, TOPICS
from tests.crash.promises import Expected, States, finish_of, states_of
from tests.crash.trials import opened_by_kafka, state_of
from tests.disk.acts import ACTS, CACHE, COPY, DATA, FILE_MODE, Act
from tests.disk.cuts import KINDS, POSIX, Cut, Disk, lay_down
from tests.disk.mount import mounted
from tests.disk.process import WHOLE, Ended, caching
from tests.disk.recording import Recording
from tests.disk.server import CHANGES, CUT, Fault
from tests.interop.referee import Referee
from tests.interop.verdicts import Log, RefereeError
from tests.mutants.suite import ROOT

SECONDS_MAX: Final = 120
DRAWN_KINDS: Final = (*KINDS, POSIX, POSIX, POSIX)
"""What a journal forbids is what an order alone forgets: it takes the disk without one to show that."""
BATCH: Final = 25
"""Log dirs that Kafka opens at a question."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What ``Expected`` asks of a scene."""

    name: str

    @property
    def whole(self) -> Act:
        return ACTS[self.name]

    def act(self, log_dir: Path, _fs: FileSystem) -> None:
        """Run the command again, as who finds what a cut left."""
        root = log_dir.parent
        shutil.rmtree(root / COPY, ignore_errors=True)  # as whoever finds an incomplete one is told
        ended = self.whole.run(root)
        assert ended.status in self.whole.statuses | self.whole.statuses_again, ended
        assert "Traceback" not in ended.stderr, ended

    @property
    def mends(self) -> bool:
        return self.whole.mends

    @property
    def grows(self) -> bool:
        return self.whole.grows

    @property
    def erases(self) -> bool:
        """Whether records go by their keys alone."""
        return self.whole.erases


@dataclass(frozen=True, slots=True)
class Case(Expected):
    """An act on a drawn disk, and its result if nothing interrupts it."""

    name: str = ""
    root: Path = Path()
    """The disk as it was drawn."""
    aside: Mapping[str, tuple[bytes, str, bytes]] = field(default_factory=dict)
    """What the act sets aside for a restore: by path its content, and the path and the content of what it was."""
    makes_copy: bool = False

    @property
    def whole(self) -> Act:
        return ACTS[self.name]

    def check_stopped(self, found: States, where: object) -> None:
        """A partition that the act makes is there or not."""
        new = self.after.keys() - self.before.keys()
        for name in new & found.keys():
            assert found[name] == self.after[name], (where, name)
        Expected.check_stopped(self, {name: state for name, state in found.items() if name not in new}, where)

    def check_copy(self, root: Path, where: object) -> None:
        """Check that a copy with a manifest is whole; without one there is no copy."""
        copy = root / COPY
        if (copy / MANIFEST_FILE).exists():
            manifest = json.loads((copy / MANIFEST_FILE).read_text())
            told = {entry["path"]: entry["sha256"] for entry in _files_of(manifest)}
            found = {path: _hash_of(copy / path) for path in told}
            assert found == told, where
            for path, digest in told.items():
                status, wanted = (copy / path).stat(), (copy / path).parent.stat()
                owned = status.st_uid, status.st_gid, status.st_mode & 0o777
                assert owned == (wanted.st_uid, wanted.st_gid, FILE_MODE), (where, path, owned)
                original = self.root / DATA / path
                if path.endswith(".log") and original.exists() and digest == _hash_of(original):
                    assert status.st_mtime_ns == original.stat().st_mtime_ns, (where, path, "another time")

    def check_aside(self, root: Path, where: object) -> None:
        """What the act takes out of a log can be restored: it waits, or is where it was."""
        for path, (content, was, before) in self.aside.items():
            found = {place: file.read_bytes() for place in (path, was) if (file := root / place).exists()}
            assert found.get(path) == content or found.get(was) == before, (where, path, found.keys())

    def check_journal(self, log_dir: Path, where: object) -> None:
        """What left the log has its line."""
        lines = list(read_journal(log_dir))
        for name, state in self.before.items():
            tp = parse_topic_partition(name)
            gone = {path.name for path in (self.root / DATA / name).glob("*.log")} - {
                path.name for path in (log_dir / name).glob("*.log")
            }
            named = [line for line in lines if line.get("partition") == str(tp)]
            assert not gone or named, (where, name, "no line in the journal", sorted(gone), state.log_start_offset)

    def check_attributes(self, log_dir: Path, where: object) -> None:
        """A broker can open what is part of a log. FUSE makes no nameless files: an empty one may still be ours."""
        for path in (*log_dir.glob("*/*.log"), *log_dir.glob("*/*index"), *log_dir.glob("*/*.snapshot")):
            status, wanted = path.stat(), path.parent.stat()
            found = status.st_uid, status.st_gid, status.st_mode & 0o777
            assert not status.st_size or found == (wanted.st_uid, wanted.st_gid, FILE_MODE), (where, path, found)


def _hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _files_of(manifest: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """Every object with a path and a checksum, wherever it is."""
    if isinstance(manifest, Mapping):
        if {"path", "sha256"} <= manifest.keys():
            yield manifest  # type: ignore[misc]
        for value in manifest.values():
            yield from _files_of(value)
    elif isinstance(manifest, list):
        for value in manifest:
            yield from _files_of(value)


def case_of(name: str, seed: int, scratch: Path) -> Case:
    """Draw a disk in an absent directory, and act on a copy."""
    root = scratch / "drawn"
    ACTS[name].draw(root, seed)
    done = copied(root, scratch / "done")
    ended = ACTS[name].run(done)
    assert ended.status in ACTS[name].statuses, ended
    case = Case(
        Doing(name),
        root / DATA,
        states_of(root / DATA),
        states_of(done / DATA),
        finish_of(done / DATA),
        name,
        root,
        aside_of(root, done, mends=ACTS[name].mends),
        (done / COPY / MANIFEST_FILE).exists(),
    )
    assert all(state.torn_bytes == 0 for state in case.after.values())
    return case


def aside_of(root: Path, done: Path, *, mends: bool) -> dict[str, tuple[bytes, str, bytes]]:
    """What an act set aside, and what it was. Sources of a compaction are not meant, as the next run unlinks them: a
    partition that may have some is left out, unless the act mends."""
    found = {}
    for topic_partition, directory in LogDir(done / DATA).partitions():
        if mends or "compact" not in TOPICS[topic_partition.topic]["cleanup.policy"]:
            for path in directory.iterdir():
                name = path.relative_to(done).as_posix()
                was = name.removesuffix(FileState.DELETED.value).partition(".from-")[0]
                if was != name and (root / was).exists() and not (root / name).exists():
                    found[name] = path.read_bytes(), was, (root / was).read_bytes()
    return found


def copied(root: Path, target: Path) -> Path:
    """A disk, with owners and modes, and with what lies beside it."""
    subprocess.run(["cp", "-a", root, target], check=True)
    for beside in root.parent.glob(f"{root.name}.*"):
        shutil.copy2(beside, target.with_name(target.name + beside.suffix))
    return target


# ---- recording -----------------------------------------------------------------------------------------------------


def acted(
    case: Case, root: Path, scratch: Path, twin: str = WHOLE, faults: Sequence[Fault] = ()
) -> tuple[Ended, Recording]:
    """Run the command as a whole process on a forgetting disk, whose directory is ``root``."""
    log = scratch / "recording"
    mountpoint = scratch / "mounted"
    for beside in root.parent.glob(f"{root.name}.*"):
        shutil.copy2(beside, mountpoint.with_name(mountpoint.name + beside.suffix))
    with mounted(root, mountpoint, log, faults):
        words = [sys.executable, "-m", "tests.disk.process", str(AT_MS), twin, *case.whole.command(mountpoint)]
        with caching(scratch / CACHE):
            ran = subprocess.run(
                words,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS_MAX,
                start_new_session=True,
            )
    return Ended(ran.returncode, ran.stdout, ran.stderr), Recording.read(log)


def recorded(case: Case, scratch: Path, twin: str = WHOLE, begun: Path | None = None) -> Recording:
    """Record a command that comes to its end.

    Args:
        case: the act.
        scratch: a directory of the trial.
        twin: of the program.
        begun: the disk that it finds, which it changes; else that of the case.
    """
    ended, recording = acted(case, begun or copied(case.root, scratch / "backing"), scratch, twin)
    shutil.rmtree(begun or scratch / "backing")
    allowed = case.whole.statuses | (case.whole.statuses_again if begun else frozenset())
    assert twin != WHOLE or ended.status in allowed, ended
    return recording


# ---- cuts ----------------------------------------------------------------------------------------------------------


def cuts_of(recording: Recording, count: int, dice: Random) -> Iterator[tuple[Disk, Cut]]:
    """Draw cuts of a recording, each with the disk at that moment; moments rise, and one of ten is its end."""
    disk, end = Disk(recording), len(recording.operations)
    for moment in sorted(dice.randint(1, end) if dice.random() < 0.9 else end for _ in range(count)):
        disk.play(moment)
        yield disk, disk.cut(dice.choice(DRAWN_KINDS), dice)


def laid_down(case: Case, disk: Disk, cut: Cut, root: Path) -> Path:
    """Write what a cut left, and what lay beside the disk, to a place at which nothing is."""
    lay_down(disk.left(cut), root)
    for beside in case.root.parent.glob(f"{case.root.name}.*"):
        shutil.copy2(beside, root.with_name(root.name + beside.suffix))
    return root


def cut_again(case: Case, recording: Recording, scratch: Path, dice: Random) -> tuple[list[str], Recording]:
    """Tell what a cut of a first run did not keep, and record the same command on what it left."""
    (disk, cut), *_ = cuts_of(recording, 1, dice)
    begun = laid_down(case, disk, cut, scratch / "begun")
    shutil.rmtree(begun / COPY, ignore_errors=True)
    return disk.told(cut), recorded(case, scratch, begun=begun)


def killed(case: Case, scratch: Path, operations: int, dice: Random) -> tuple[Recording, bool]:
    """Run the command, and end it with the power at some operation; in some trials once more, on what that left.

    Args:
        case: the act.
        scratch: a directory of the trial.
        operations: about how many there are.
        dice: which decide.

    Returns: what was recorded up to the last cut, and whether a process was killed.
    """
    root = copied(case.root, scratch / "backing")
    is_killed = False
    while True:
        cut = Fault(CHANGES, CUT, dice.randrange(operations), -1)
        ended, recording = acted(case, root, scratch, faults=[cut])
        shutil.rmtree(root)
        assert ended.status in {-signal.SIGKILL, *case.whole.statuses, *case.whole.statuses_again}, ended
        is_killed |= ended.status == -signal.SIGKILL
        if not recording.operations or dice.random() < 0.7:
            return recording, is_killed
        disk = Disk(recording)
        disk.play(len(recording.operations))
        root = laid_down(case, disk, disk.cut(dice.choice(DRAWN_KINDS), dice), scratch / "again")
        shutil.rmtree(root / COPY, ignore_errors=True)


def last_cuts(recording: Recording, count: int, dice: Random) -> Iterator[tuple[Disk, Cut]]:
    """Draw cuts at the end of a recording."""
    disk = Disk(recording)
    disk.play(len(recording.operations))
    for _ in range(count):
        yield disk, disk.cut(dice.choice(DRAWN_KINDS), dice)


@dataclass(frozen=True, slots=True)
class Failure:
    """A promise that a cut broke."""

    cut: Cut
    told: tuple[str, ...]
    """What the disk did not keep."""
    error: str


def judged(
    case: Case,
    referee: Referee | None,
    cuts: Iterator[tuple[Disk, Cut]],
    scratch: Path,
    *,
    is_patient: bool = False,
    goes_on_every: int = 1,
    ends_at: int | None = None,
) -> list[Failure]:
    """Lay each cut down, have Kafka's loader and our recovery look, and go on with the act.

    Args:
        case: what is expected.
        referee: Kafka; without it our recovery judges alone.
        cuts: to judge.
        scratch: an absent directory.
        is_patient: go on behind the first failure.
        goes_on_every: act again on so many-th disks only, where Kafka need not wait for that.
        ends_at: the number of operations of a command that came to its end: what it did lasts from there on.
    """
    failures: list[Failure] = []
    scratch.mkdir(parents=True)
    waiting: list[Left] = []
    met: set[int] = set()
    for number, (disk, cut) in enumerate(cuts):
        state = hash(frozenset(disk.left(cut).items()))
        if state in met:
            continue
        met.add(state)
        root = laid_down(case, disk, cut, scratch / f"cut-{number}")
        waiting.append(Left(cut, disk.told(cut), root, number % goes_on_every == 0, cut.at == ends_at))
        if len(waiting) == (BATCH if referee else 1):
            failures += _judge_some(case, referee, waiting)
            waiting.clear()
            if failures and not is_patient:
                break
    failures += _judge_some(case, referee, waiting)
    shutil.rmtree(scratch)
    return failures


class Left(NamedTuple):
    """A disk that a cut left."""

    cut: Cut
    told: list[str]
    root: Path
    goes_on: bool
    is_over: bool
    """Whether the command had come to its end."""

    @property
    def for_kafka(self) -> Path:
        return self.root.with_name(f"{self.root.name}-kafka")

    def failure(self, error: str) -> Failure:
        return Failure(self.cut, tuple(self.told), error)


def _judge_some(case: Case, referee: Referee | None, lefts: Sequence[Left]) -> list[Failure]:
    failures: list[Failure] = []
    for left in lefts:
        try:
            check_ours(case, left.root, left.told, goes_on=left.goes_on, is_over=left.is_over)
        except Exception:
            failures.append(left.failure(traceback.format_exc()))
    if referee:
        failed = [failure.cut for failure in failures]
        failures += _kafka_finds(case, referee, [left for left in lefts if left.cut not in failed])
    for left in lefts:
        shutil.rmtree(left.root)
        shutil.rmtree(left.for_kafka, ignore_errors=True)
    return failures


def check_ours(case: Case, root: Path, where: object, *, goes_on: bool, is_over: bool = False) -> None:
    """Our recovery finds all; a copy for Kafka is made; the act goes on and comes to its end."""
    data = root / DATA
    lasting = replace(case, before=case.after) if is_over else case
    lasting.check_stopped(states_of(data), where)
    assert not is_over or (root / COPY / MANIFEST_FILE).exists() == case.makes_copy, where
    case.check_journal(data, where)
    case.check_attributes(data, where)
    case.check_copy(root, where)
    case.check_aside(root, where)
    for_kafka = root.with_name(f"{root.name}-kafka")
    if not case.whole.is_refused:
        copied(root, for_kafka)
    if goes_on or case.whole.is_refused:
        case.finishes(data, where)
        case.check_attributes(data, where)
    if case.whole.is_refused:
        copied(root, for_kafka)


def _kafka_finds(case: Case, referee: Referee, lefts: Sequence[Left]) -> Iterator[Failure]:
    """Failures of what Kafka finds, all of a topic at a question."""
    for name in case.after:
        there = [left for left in lefts if (left.for_kafka / DATA / name).is_dir()]
        for left, log in zip(there, opened(referee, name, [left.for_kafka / DATA for left in there]), strict=True):
            try:
                found = state_of(log() if callable(log) else log)
                if name in case.before:
                    case.check_partition(name, found, (left.told, name))
                else:
                    assert found.records == case.after[name].records, (left.told, name)
            except Exception:
                yield left.failure(f"Kafka: {traceback.format_exc()}")


def opened(referee: Referee, name: str, log_dirs: list[Path]) -> Sequence[Log | Callable[[], Log]]:
    """All at once; where Kafka refuses one, each by itself."""
    try:
        return opened_by_kafka(referee, name, log_dirs)
    except RefereeError:
        return [lambda log_dir=log_dir: opened_by_kafka(referee, name, [log_dir])[0] for log_dir in log_dirs]


def shrunk(
    case: Case,
    recording: Recording,
    first: Failure,
    referee: Referee | None,
    scratch: Path,
    ends_at: int | None = None,
) -> Failure:
    """Find the fewest losses of a cut that still break a promise, with the kind of disk that it was."""
    disk = Disk(recording)
    disk.play(first.cut.at)

    def failure_of(smaller: Cut) -> Failure | None:
        one = iter([(disk, smaller)])
        return next(iter(judged(case, referee, one, scratch, ends_at=ends_at)), None)

    failure = failure_of(first.cut)
    if failure is None:
        return replace(first, error=f"Judged again, it broke nothing. {first.error}")
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for smaller in smaller_cuts(failure.cut):
            if found := failure_of(smaller):
                failure, is_smaller = found, True
                break
    return failure


def smaller_cuts(cut: Cut) -> Iterator[Cut]:
    """Cuts that lose one thing less. A journal loses the latest, so there the oldest lost change is kept."""
    for number in sorted(cut.lost) if cut.kind == POSIX else sorted(cut.lost)[:1]:
        yield replace(cut, lost=cut.lost - {number})
    for inode in cut.files:
        yield replace(cut, files={other: kept for other, kept in cut.files.items() if other != inode})
