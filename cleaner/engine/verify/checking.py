"""The check of some log dirs: partition after partition, the segments side by side, in order.

Beside a broker that runs, files grow, vanish and are replaced. So a partition in which something was found, or that
changed while it was read, is read again, and only what is found each time is told.

The notes of a check: what it found in each large segment, so that an interrupted check can go on.

Each segment has a line of JSON, written as soon as the segment was read. The reader passes over a line that is cut off.
What the notes say holds only for files with the same device, inode, size, mtime and ctime.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby, zip_longest
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final, NamedTuple, Self

from cleaner.engine.compaction.crew import Crew, Pace
from cleaner.engine.means import Means
from cleaner.engine.only_copies import OnlyCopies
from cleaner.engine.verify.checked import Checked, CheckRequest
from cleaner.engine.verify.log_dir_files import CheckpointFiles, read_copy, read_entries, read_id_of, read_identity
from cleaner.engine.verify.partition_files import partition_findings
from cleaner.engine.verify.set_aside import lost_in, sole_copies_in
from policies.findings.findings import Circumstances, Finding, HeaderWalk, worst_first
from policies.findings.of_log_dir import (
    TopicId,
    checkpoint_findings,
    copy_findings,
    log_dir_name_findings,
    lost_finding,
    meta_findings,
    set_aside_finding,
    topic_id_findings,
    twice_findings,
)
from policies.preflight.identity import IdentityBefore
from policies.preflight.metadata import METADATA_DIR
from storage.anomalies import Anomaly, CheckedSegment, EpochRun, Gap, LastBatch, SeenAnomaly, TxnEvent
from storage.errors import Corrupt, LogCleanerError, PlanOutOfDate, Stopped, UnreadableFile
from storage.log.listing import Listing, list_partition
from storage.log_dir import LogDir
from storage.names import (
    CLUSTER_METADATA_TOPIC,
    FileKind,
    TopicPartition,
    parse_partition_dir_name,
)
from storage.scan.segment_contents import read_segment_contents
from storage.scan.walking import Hand
from storage.segment import Segment
from storage.stores.paths import path_of_text
from storage.tiers.view import is_of_tier
from storage.txn_index import AbortedTxn

SCHEMA: Final = "logcleaner.verify-notes/1"
_BYTES_MIN: Final = 1 << 20
"""A smaller segment is read as fast as its note."""
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class Notes:
    """The notes of one check."""

    def __init__(self, file: IO[bytes], lines: Iterable[bytes]) -> None:
        """Begin with the lines of an earlier check, and write further ones to a file."""
        self._file, self._lock = file, Lock()
        self._known: dict[str, Any] = {}
        for line in lines:
            try:
                noted = json.loads(line)
                self._known[noted["key"]] = noted["facts"]
            except (ValueError, KeyError, TypeError):
                continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._file.close()

    @property
    def is_empty(self) -> bool:
        """Return whether no earlier check left a note."""
        return not self._known

    def recall(self, segment: Segment, upper_offset: int | None, *, is_deep: bool) -> CheckedSegment | None:
        """Return the noted facts of an unchanged segment; None if no facts are noted, or if the note is of another
        state.
        """
        facts = self._known.get(_key(segment, upper_offset, is_deep=is_deep))
        try:
            return _facts(facts) if facts else None
        except (TypeError, ValueError, AttributeError):  # of another version
            return None

    def note(self, segment: Segment, upper_offset: int | None, facts: CheckedSegment, *, is_deep: bool) -> None:
        """Note the facts of a segment under the identity that it had before it was read."""
        if segment.size_bytes < _BYTES_MIN or facts.size_bytes != segment.size_bytes:
            return
        noted = {"key": _key(segment, upper_offset, is_deep=is_deep), "facts": facts}
        line = json.dumps(noted).encode() + b"\n"
        with self._lock:
            self._file.write(line)
            self._file.flush()


def open_notes(path: Path | str, parent: int | None = None, *, goes_on: bool) -> Notes:
    """Open the notes in a file, or begin new ones.

    Args:
        path: of the file.
        parent: a descriptor of its directory, if the path is a name in it.
        goes_on: take up what an earlier check noted; else the file is emptied.

    Raises: OSError.
    """
    lines: list[bytes] = []
    if goes_on:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent), "rb") as file:
            lines = file.read().splitlines()
        if not lines or lines[0] != _first_line():
            lines = []
    flags = _FLAGS if lines else _FLAGS | os.O_TRUNC
    made = os.fdopen(os.open(path, flags, 0o600, dir_fd=parent), "wb")
    made.write(b"\n" if lines else _first_line() + b"\n")  # behind a line that a crash cut off
    return Notes(made, lines)


def _first_line() -> bytes:
    return json.dumps({"schema": SCHEMA}).encode()


def _key(segment: Segment, upper_offset: int | None, *, is_deep: bool) -> str:
    files = sorted(f"{kind}:{tuple(file.identity)}:{file.changed_ns}" for kind, file in segment.files.items())
    return f"{segment.log.location} {upper_offset} {is_deep} {' '.join(files)}"


def _facts(noted: Sequence[Any]) -> CheckedSegment:
    """Make facts from their JSON form, in which tuples are lists and the keys of a mapping are texts."""
    facts = CheckedSegment(*noted)
    return facts._replace(
        seen=tuple(SeenAnomaly(*one)._replace(anomaly=Anomaly(one[0]), kind=FileKind(one[1])) for one in facts.seen),
        missing=tuple(FileKind(kind) for kind in facts.missing),
        epochs=tuple(EpochRun(*run) for run in facts.epochs),
        producers={int(id_): LastBatch(*batch) for id_, batch in facts.producers.items()},
        events=tuple(TxnEvent(*event) for event in facts.events),
        aborted=tuple(AbortedTxn(*entry) for entry in facts.aborted),
        gap=Gap(*facts.gap) if facts.gap else None,
    )


_LINKED: Final = "is a symlink, which is not followed: nothing in it is verified; put the directory itself in its place"
_LOOKS_MAX: Final = 3
"""The most times that a partition is read if it changes meanwhile, or if something is found in it beside a broker."""


@dataclass(slots=True)
class _Dir:
    """A log dir, and what was read of it before its partitions."""

    log_dir: LogDir
    is_live: bool
    checkpoints: CheckpointFiles
    identity: IdentityBefore | None
    """The ``meta.properties``; None if it cannot be read."""
    rule: OnlyCopies
    read: set[TopicPartition] = field(default_factory=set)
    """The partitions that were read."""


class _Place(NamedTuple):
    """A partition that is to be read."""

    dir: _Dir
    name: TopicPartition
    path: Path


class _Task(NamedTuple):
    """A segment to read; None for a partition without a segment, or for a partition that cannot be listed."""

    place: _Place
    listing: Listing | LogCleanerError
    segment: Segment | None
    upper_offset: int | None


_Result = CheckedSegment | LogCleanerError | None


def check_log_dirs(
    log_dirs: Sequence[LogDir], request: CheckRequest, means: Means, notes: Notes | None = None
) -> Checked:
    """Check log dirs. Nothing is changed, and no lock is taken.

    Args:
        log_dirs: they belong to one broker.
        request: what is checked.
        means: listener (progress), clock, the rate (``log.cleaner.io.max.bytes.per.second``), the wish to stop.
        notes: the segments that an earlier check read already; this check adds the segments that it reads.

    Raises: Stopped.
    """
    with Crew(request.threads) as crew:
        return _Check(request, means, crew, notes).run(log_dirs)


class _Check:
    """One check."""

    def __init__(self, request: CheckRequest, means: Means, crew: Crew, notes: Notes | None) -> None:
        self._request, self._means, self._crew, self._notes = request, means, crew, notes
        self._checked = Checked()
        self._findings: list[Finding] = []
        self._ids: list[TopicId] = []
        self._pace, self._lock, self._own = Pace(means), threading.Lock(), threading.local()

    def run(self, log_dirs: Sequence[LogDir]) -> Checked:
        dirs = [found for log_dir in log_dirs if (found := self._open(log_dir)) is not None]
        places = [place for one in dirs for place in self._places(one)]
        self._expect(places)
        worked = self._crew.in_order(self._read, self._tasks(places))
        for _, group in groupby(worked, key=lambda one: one[0].place.path):
            together = list(group)
            self._judge(together[0][0].place, together)
        self._judge_dirs(dirs)
        self._checked.findings = worst_first(list(dict.fromkeys(self._findings)))
        self._checked.problems = list(dict.fromkeys(self._checked.problems))
        return self._checked

    def _is_live(self, log_dir: LogDir) -> bool:
        """Return whether another process, a broker perhaps, holds the lock of a log dir."""
        return not self._request.is_locked_by_us and log_dir.locked_by() is not None

    def _open(self, log_dir: LogDir) -> _Dir | None:
        try:
            is_live = self._is_live(log_dir)
            checkpoints = CheckpointFiles.read(log_dir.path, self._unread)
            return _Dir(log_dir, is_live, checkpoints, self._identity_of(log_dir), OnlyCopies(log_dir))
        except UnreadableFile as error:
            self._checked.problems.append(str(error))
            return None

    def _identity_of(self, log_dir: LogDir) -> IdentityBefore | None:
        try:
            return read_identity(log_dir.path)
        except UnreadableFile as error:
            self._unread(error)
            return None

    def _unread(self, error: UnreadableFile) -> None:
        self._checked.problems.append(str(error))

    def _places(self, dir_: _Dir) -> Iterator[_Place]:
        metadata = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
        try:
            found = list(dir_.log_dir.partitions())
            linked = [path for name, path in dir_.log_dir.symlinked_partitions() if self._request.wants(name)]
        except UnreadableFile as error:
            self._checked.problems.append(str(error))
            return
        self._checked.problems += [f"{path}: {_LINKED}" for path in linked]
        if (path := dir_.log_dir.path / str(metadata)).is_dir():
            found.append((metadata, path))
        yield from (_Place(dir_, name, path) for name, path in found if self._request.wants(name))

    def _expect(self, places: Sequence[_Place]) -> None:
        """Tell how much there is to read. A partition that cannot be listed now is reported when its turn comes."""
        for place in places:
            if self._means.stopping():
                raise Stopped
            listing = _listed(place)
            if isinstance(listing, Listing):
                self._means.listener.expect(sum(segment.size_bytes for segment in listing.segments))

    def _tasks(self, places: Sequence[_Place]) -> Iterator[_Task]:
        for place in places:
            yield from _tasks_of(place)

    def _read(self, task: _Task) -> _Result:
        """Read one segment, in any thread. Raises: Stopped."""
        if task.segment is None:
            return None
        is_deep = self._request.is_deep
        noted = self._notes.recall(task.segment, task.upper_offset, is_deep=is_deep) if self._notes else None
        if noted is not None:
            with self._lock:
                self._checked.noted_bytes += noted.size_bytes
                self._means.listener.progress(noted.size_bytes)
            return noted
        if not hasattr(self._own, "hand"):
            self._own.hand = Hand()
        try:
            with _as_unreadable(task.segment.log.path):
                hand = self._own.hand
                facts = read_segment_contents(task.segment, task.upper_offset, hand, self._spend, is_deep=is_deep)
        except Stopped:
            raise
        except LogCleanerError as error:
            return error
        if self._notes:
            self._notes.note(task.segment, task.upper_offset, facts, is_deep=is_deep)
        return facts

    def _spend(self, done_bytes: int) -> None:
        """Keep to the rate, all threads together. Raises: Stopped."""
        if self._means.stopping():
            raise Stopped
        with self._lock:
            self._pace(done_bytes)

    def _judge(self, place: _Place, group: list[tuple[_Task, _Result]]) -> None:
        """Judge one partition; look again where it changed, or where something was found beside a broker."""
        found, facts = self._found(place, group)
        if found and not place.dir.is_live:
            place.dir.is_live = self._is_live(place.dir.log_dir)  # a broker may have started since
        for _ in range(_LOOKS_MAX - 1):
            if found is not None and not (found and place.dir.is_live):
                break
            place = _anew(place)
            again, facts = self._found(place, [(task, self._read(task)) for task in _tasks_of(place)])
            if found is not None and again is not None:
                known = {_place_of(finding) for finding in again}
                again = [finding for finding in found if _place_of(finding) in known]
            found = again
        if found is None:
            if place.path.is_dir():
                self._checked.problems.append(f"{place.path}: changes faster than it can be read; try again")
            return
        self._findings += found
        self._checked.partitions += 1
        self._checked.segments += len(facts)
        self._checked.size_bytes += sum(one.size_bytes for one in facts)
        first_dirty = place.dir.checkpoints.noted(place.name).first_dirty
        self._checked.walks[str(place.path)] = HeaderWalk.of(facts, first_dirty)
        place.dir.read.add(place.name)

    def _found(
        self, place: _Place, group: list[tuple[_Task, _Result]]
    ) -> tuple[list[Finding] | None, list[CheckedSegment]]:
        """Return the findings of a partition, None if it changed meanwhile, and the facts of its segments."""
        errors = [result for _, result in group if isinstance(result, LogCleanerError)]
        listing = group[0][0].listing if group else UnreadableFile(place.path, "vanished")
        if isinstance(listing, LogCleanerError):
            errors.append(listing)
        if any(_is_passing(error) for error in errors) and not is_of_tier(place.path):
            return None, []
        facts = [result for _, result in group if isinstance(result, CheckedSegment)]
        if errors or isinstance(listing, LogCleanerError):
            self._checked.problems += map(str, errors)
            self._checked.corrupt += [error for error in errors if isinstance(error, Corrupt)]
            return [], facts
        try:
            noted, circumstances = place.dir.checkpoints.noted(place.name), _circumstances(place)
            with _as_unreadable(place.path):
                findings = partition_findings(place.name, listing, facts, noted, circumstances, place.dir.rule)
            if place.name.topic != CLUSTER_METADATA_TOPIC:
                self._note_id(read_id_of(place.path, place.name))
        except UnreadableFile as error:
            if error.has_vanished:
                return None, []
            self._checked.problems.append(str(error))
            return [], facts
        return findings, facts

    def _note_id(self, topic_id: TopicId) -> None:
        if self._ids and self._ids[-1].directory == topic_id.directory:
            self._ids.pop()  # an earlier look
        self._ids.append(topic_id)

    def _judge_dirs(self, dirs: Sequence[_Dir]) -> None:
        self._findings += topic_id_findings(self._ids, self._request.topic_ids)
        everywhere = self._everywhere(dirs) if self._request.is_whole else set()
        for one in dirs:
            path = one.log_dir.path
            lacks = read_copy(path, self._request.wants, self._unread, is_whole=self._request.is_whole)
            self._findings += copy_findings(str(path), lacks)
            try:
                entries = read_entries(path)
                # a line is stale only if the partition was not there before, nor now
                linked = {name for name, _ in one.log_dir.symlinked_partitions()}
                present = {name for name, _ in one.log_dir.partitions()} | linked | one.read
                is_whole = self._request.is_whole and not one.is_live
                if is_whole:
                    gone = lost_in(
                        one.checkpoints.offsets,
                        everywhere,
                        self._request.topic_ids,
                        is_clean=one.checkpoints.was_clean,
                    )
                    lost = {found.topic_partition: found for found in gone}
                    self._findings += [lost_finding(f"{path}/{name}", found) for name, found in lost.items()]
                    sole = sole_copies_in(one.log_dir, [other.log_dir for other in dirs])
                    self._findings += [set_aside_finding(f"{path}/{name}", found) for name, found in sole.items()]
                    present |= lost.keys() | {found.topic_partition for found in sole.values()}
                for checkpoint in one.checkpoints.files:
                    self._findings += checkpoint_findings(checkpoint, present if is_whole else None)
                if self._request.is_whole:
                    self._findings += log_dir_name_findings(str(path), entries)
            except UnreadableFile as error:
                self._checked.problems.append(str(error))
        identities = [one.identity for one in dirs if one.identity is not None]
        metadata_dir = next((str(one.log_dir.path) for one in dirs if (one.log_dir.path / METADATA_DIR).is_dir()), None)
        if not self._request.is_whole:
            identities = [one for one in identities if not one.is_missing]
        self._findings += meta_findings(identities, metadata_dir)
        self._findings += twice_findings((name, str(one.log_dir.path / str(name))) for one in dirs for name in one.read)

    def _everywhere(self, dirs: Sequence[_Dir]) -> set[TopicPartition]:
        """Return the partitions with a directory in any log dir, whatever its suffix."""
        try:
            names = [entry.name for one in dirs for entry in read_entries(one.log_dir.path)]
        except UnreadableFile as error:
            self._unread(error)
            return set()
        return {found.topic_partition for name in names if (found := parse_partition_dir_name(name))}


def _anew(place: _Place) -> _Place:
    """Return the place with the checkpoints of now: a broker may have compacted it for the first time meanwhile."""
    with suppress(UnreadableFile):
        checkpoints = CheckpointFiles.read(place.dir.log_dir.path, lambda _: None)
        return place._replace(dir=replace(place.dir, checkpoints=checkpoints))
    return place


@contextmanager
def _as_unreadable(path: Path) -> Iterator[None]:
    """Raise UnreadableFile for what a store refuses, which is read long after it was opened; name objects of a tier."""
    try:
        yield
    except OSError as error:
        is_object = is_of_tier(path) and isinstance(error.filename, str)
        named = path_of_text(error.filename) if is_object else path
        raise UnreadableFile(named, error.strerror or str(error)) from error


def _listed(place: _Place) -> Listing | LogCleanerError:
    try:
        return list_partition(place.path)
    except UnreadableFile as error:
        return error


def _tasks_of(place: _Place) -> Iterator[_Task]:
    listing = _listed(place)
    segments = listing.segments if isinstance(listing, Listing) else ()
    if not segments:
        yield _Task(place, listing, None, None)
    uppers = [segment.base_offset for segment in segments[1:]]
    for segment, upper_offset in zip_longest(segments, uppers):
        yield _Task(place, listing, segment, upper_offset)


def _is_passing(error: LogCleanerError) -> bool:
    """Return whether a file changed or vanished, as happens beside a live broker."""
    return isinstance(error, PlanOutOfDate) or (isinstance(error, UnreadableFile) and error.has_vanished)


def _circumstances(place: _Place) -> Circumstances:
    checkpoints, is_metadata = place.dir.checkpoints, place.name.topic == CLUSTER_METADATA_TOPIC
    was_clean = checkpoints.was_clean and not is_metadata  # each start recovers that log, from its beginning on
    return checkpoints.noted(place.name).circumstances(is_live=place.dir.is_live, was_clean=was_clean)


_place_of = itemgetter(0, 2, 5)
"""The code, path and position of a finding."""
