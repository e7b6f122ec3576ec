"""What must hold after each step, whatever came before it.

A record that was there before an act of ours, and is gone after it, must have been let go by a policy that was stated
then, at that clock. This says necessary conditions of each rule, in words of its own; ``tests.models`` and the
comparisons with Kafka say the exact ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.lives.foretold import Refused
from tests.lives.policy_laws import of_deleted_keys, of_producers, of_transactions, overdue
from tests.lives.promises import of_promises
from tests.lives.running import CRASHED, Told
from tests.lives.seen import Fact, Look, Piece, Placed, SeenLog
from tests.lives.world import Act, Stated, World

STATUSES: Final = frozenset({0, 1, 2, 3, 4, 5, 6, 10})
_SHOWN: Final = 5
_ASIDE: Final = re.compile(r"[^/]+\.[0-9a-f]{32}-(stray|delete)/")
_FAILED: Final = frozenset({"error", "errors", "failed"})
"""Of any document: what failed."""
_TELLS_OF_OTHERS: Final = frozenset({"explain", "preflight"})
"""Commands whose documents tell of what failed before, or would fail."""
_FIGURES: Final = ("deleted_segments", "deleted_bytes", "compacted_from_bytes")
"""Of a result; a dry run states the most that they can be."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that a step broke."""

    law: str
    told: str

    def __str__(self) -> str:
        return f"{self.law}: {self.told}"


@dataclass(frozen=True, slots=True)
class _Log:
    """A partition before an act, with what a person set aside in its place."""

    log: SeenLog
    aside: tuple[Piece, ...]
    stated: tuple[Stated, ...]
    """What is stated; more than one thing while the configuration is edited."""
    now_ms: int
    latest_ms: int
    """The latest time that the clock ever told."""

    @classmethod
    def of(cls, world: World, log: SeenLog, *aside: Piece) -> _Log:
        """Take the clock, and what is stated, from the world."""
        return cls(log, aside, world.all_in_force(log.name), world.clock.now_ms, world.clock.latest_ms)

    def piece_of(self, offset: int) -> tuple[Piece, Placed]:
        for piece in (*self.log.pieces, *self.aside):
            for placed in piece.placed:
                if placed.fact.offset == offset:
                    return piece, placed
        raise AssertionError(f"{self.log.name}: offset {offset} was in no piece")

    def retention_lets(self, piece: Piece) -> bool:
        """Return whether a stated limit lets a segment go."""
        end = self.log.high_watermark
        if end is None or piece.end_offset > end:
            return False
        return any(self._limits_let(stated, piece) for stated in self.stated if stated.deletes)

    def _limits_let(self, stated: Stated, piece: Piece) -> bool:
        by_age, by_size = stated.retention_ms, stated.retention_bytes
        behind = sum(other.size_bytes for other in self.log.pieces if other.base_offset > piece.base_offset)
        is_old = by_age is not None and by_age >= 0 and piece.aged_from_ms < self.now_ms - by_age
        return is_old or (by_size is not None and behind >= by_size)

    def compaction_lets(self, piece: Piece, placed: Placed) -> bool:
        """Return whether a round lets a record go."""
        compacting = [s for s in self.stated if s.compacts and self._is_beyond(s.min_compaction_lag_ms, piece)]
        if not compacting or not self.log.pieces or piece.trouble:
            return False
        fact = placed.fact
        end = min(self.log.stable_end, max(map(self._rounds_end, compacting)))
        if fact.offset >= end:
            return False
        is_expired = fact.value is None and placed.horizon_ms is not None and placed.horizon_ms <= self.now_ms
        if placed.is_legacy and fact.value is None:
            newest_ms, stays_ms = (
                max(one.file_ms for one in self.log.pieces),
                min(s.delete_retention_ms for s in compacting),
            )
            is_expired = piece.file_ms <= newest_ms - stays_ms
        return fact.key is None or is_expired or fact.offset in self.log.aborted or self._is_superseded(fact, end)

    def _rounds_end(self, stated: Stated) -> int:
        """Return where a round ends: before the first segment that is too young, or the active one."""
        sealed, lag_ms = self.log.pieces[:-1], stated.min_compaction_lag_ms
        young = [one.base_offset for one in sealed if not self._is_beyond(lag_ms, one)]
        return min([*young, self.log.pieces[-1].base_offset])

    def _is_beyond(self, lag_ms: int, piece: Piece) -> bool:
        return not lag_ms or piece.aged_from_ms <= self.now_ms - lag_ms

    def _is_superseded(self, fact: Fact, end: int) -> bool:
        aborted = self.log.aborted
        return any(
            later.key == fact.key and fact.offset < offset < end and offset not in aborted
            for offset, later in self.log.records.items()
        )


def broken_by(world: World, before: Look, act: Act, after: Look) -> list[Broken]:
    """Return the laws that an act broke."""
    found = [broken for told in act.told for broken in _of_command(told)]
    found += _of_kafka(before, act)
    found += [Broken("what is foretold comes true", told) for told in act.untrue]
    found += _of_what_is_done(world, act, after)
    if act.may.is_trusted:
        return found
    untold = [untold for told in act.told for untold in of_promises(told, before, after)]
    found += [Broken("what is told as done is done", told) for told in untold]
    if act.copy:
        found += _of_copy(world, before, act, act.copy)
    for name, log in before.logs.items():
        if name not in after.logs:
            found.append(Broken("a partition stays", f"{name} is gone"))
            continue
        aside = (before.aside[path] for path in world.by_hand if path in before.aside and _is_of(path, name))
        context = _Log.of(world, log, *aside)
        is_held = name in before.holds | world.held_before
        found += _of_partition(context, act, after.logs[name], is_held=is_held)
        found += _of_producers(world, context, act, after.logs[name])
        found += [] if is_held else _of_due(world, context, act, after.logs[name])
        found += _of_restores(before, act, log, after.logs[name])
        found += _of_trouble(before, act, log, after.logs[name])
    found += _of_aside(world, before, act, after)
    found += _of_evidence(world, before, act, after)
    found += [
        *_of_directories(before, after),
        *_of_plans(act, after),
        *_of_looks(world, before, act, after),
        *_of_owners(world, before, after),
    ]
    found += _of_promises(act, after)
    found += _of_holds(before, act, after)
    found += _of_waiting(world, act, after)
    if act.imported:
        source, made = (after.logs[name] for name in act.imported)
        if source.contents != made.contents:
            found.append(Broken("an import has what was exported", f"{act.imported}: {_differing(source, made)}"))
    return found


def _of_producers(world: World, before: _Log, act: Act, after: SeenLog) -> Iterator[Broken]:
    """Nobody forgets a producer. Where a person took a segment away, a start made snapshots without it."""
    if after.name not in world.touched:
        told = of_producers(before.log, after, before.latest_ms, lost_power=_lost_power(act))
        yield from (Broken("ends of producers stay", one) for one in told)


def _lost_power(act: Act) -> bool:
    return any(told.lost_power for told in act.told)


def _of_due(world: World, context: _Log, act: Act, after: SeenLog) -> Iterator[Broken]:
    """A whole run leaves nothing that is due by age; what a person holds, set aside or removed bounds it."""
    is_run = act.settles and act.told[0].status == 0 and "--yes" in act.told[0].words and not act.copy
    if not is_run or len(context.stated) != 1 or context.aside:
        return
    if '"kept": [{' in act.told[0].stdout or any(_is_of(path, after.name) for path in world.evidence):
        return
    told = overdue(context.log, after, context.stated[0], context.now_ms)
    yield from (Broken("what is due goes", one) for one in told)


def _of_looks(world: World, before: Look, act: Act, after: Look) -> Iterator[Broken]:
    """A command that looks changes nothing, and what it says is so."""
    if not act.looked:
        return
    if changed := {path for path, _ in set(before.files.items()) ^ set(after.files.items())}:
        yield Broken("a look changes nothing", f"{act.looked}: {sorted(changed)[:_SHOWN]}")
    told = act.told[0]
    if act.looked == "prove-erased" and told.status == 0 and after.holds_key(told.words[1].encode()):
        yield Broken("a key that is proven erased is nowhere", told.words[1])
    if act.looked == "doctor" and told.words[0] == "doctor":
        yield from of_doctor(world, told, after)


def of_doctor(world: World, told: Told, look: Look) -> Iterator[Broken]:
    """The doctor names what is missing, and what was cut; it tells of no loss where nobody touched a file."""
    said = f"{told.status} {told.stdout[-1500:]} {told.stderr[-1500:]}"
    if "Traceback" in told.stderr or told.status not in {0, 4}:
        yield Broken("a doctor looks", said)
        return
    if cut := [path for path in world.troubled() if not all(name in told.stdout for name in path.split("/"))]:
        yield Broken("a doctor names a log that was cut", f"{cut}: {said}")
    names = lacking(world, look)
    if names and not (told.status == 4 and all(name in told.stdout for name in names)):
        yield Broken("a doctor names what is missing", f"{names}: {said}")
    lost = [one for one in (told.document or {}).get("findings", ()) if one["harm"] == "data_lost"]
    if invented := [one for one in lost if _partition_at(world, one["path"]) not in world.touched | world.halted]:
        yield Broken("a doctor invents no loss", str(invented[:_SHOWN]))


def _partition_at(world: World, path: str) -> str:
    """Return the partition of a path, also of a directory that is set aside."""
    parts = Path(path).relative_to(world.log_dir).parts
    return parts[0].partition(".")[0] if parts else ""


def _of_owners(world: World, before: Look, after: Look) -> Iterator[Broken]:
    """A broker can open what is new in a partition; a ``.deleted`` file has the owner that it had."""
    for path, (size, _, uid) in after.files.items():
        if path in before.files or "/" not in path or not size:
            continue
        renamed = before.files.get(path.removesuffix(".deleted"))
        if uid != (world.log_dir / path).parent.stat().st_uid and not (renamed and renamed[2] == uid):
            yield Broken("new files belong to the broker", f"{path} belongs to {uid}")


def _of_directories(before: Look, after: Look) -> Iterator[Broken]:
    """Nobody touches the directories that a broker set aside."""
    touched = {path for path, _ in set(before.files.items()) ^ set(after.files.items()) if _ASIDE.match(path)}
    if touched:
        yield Broken("a directory that is set aside stays", f"{sorted(touched)[:_SHOWN]}")


def _of_promises(act: Act, after: Look) -> Iterator[Broken]:
    """What a command says it did is done."""
    for name, offset in act.may.below.items():
        if act.told[0].status == 0 and name in after.logs and after.logs[name].log_start < offset:
            yield Broken("what is told as done is done", f"{name} begins at {after.logs[name].log_start}, not {offset}")
    for name, key in act.may.erases.items():
        if act.told[0].status == 0 and name in after.logs:
            left = [one.offset for one in after.logs[name].records.values() if one.key == key and one.value is not None]
            if left:
                yield Broken("what is told as done is done", f"{name} still has {key.decode()} at {left[:_SHOWN]}")


def _of_holds(before: Look, act: Act, after: Look) -> Iterator[Broken]:
    """A hold stays until it is released, and what a restore brings back is on hold, also if it then fails."""
    if lost := sorted(before.holds & after.logs.keys() - after.holds - act.may.releases):
        yield Broken("a hold stays until it is released", f"{lost}")
    for name in after.logs.keys() & before.logs.keys() - after.holds:
        if after.logs[name].records.keys() - before.logs[name].records:
            yield Broken("what is restored is on hold", name)


def _of_waiting(world: World, act: Act, after: Look) -> Iterator[Broken]:
    """A file that became ``.deleted`` waits for ``file.delete.delay.ms``, and a restore brings it back."""
    now_ms, there, first = world.clock.now_ms, after.files.keys(), act.told[0] if act.told else None
    for path, (until_ms, is_due) in world.waiting.items():
        is_back = path not in there and path.removesuffix(".deleted") in there
        if now_ms < until_ms and path not in there and not is_back and not act.may.unlinks:
            yield Broken("a .deleted file waits", f"{path}: until {until_ms}, and it is {now_ms}")
        is_wanted = first and first.words[0] == "restore" and first.words[1] in {"--all", path.partition("/")[0]}
        if is_due and is_wanted and act.may.restores and first.status == 0 and path in there:
            yield Broken("a restore brings back what waits", path)


def _of_what_is_done(world: World, act: Act, after: Look) -> Iterator[Broken]:
    """What was told as done stays done, whatever comes later."""
    for name, done in world.done.items():
        if name not in after.logs:
            continue
        log = after.logs[name]
        if log.log_start < done.log_start and not act.may.restores:
            yield Broken("what was told as done stays done", f"{name} begins at {log.log_start}, not {done.log_start}")
        if back := sorted(done.erased & log.records.keys()):
            yield Broken("what was told as done stays done", f"{name} has what was erased: {back[:_SHOWN]}")


def _of_kafka(before: Look, act: Act) -> Iterator[Broken]:
    """Kafka's classes read what was there."""
    for name, found in (act.started or {}).items():
        log = before.logs[name]
        if log.trouble:
            continue
        if isinstance(found, Refused):
            yield Broken("Kafka reads every record", f"{name}: {found.error}")
        elif found.offsets != log.records.keys():
            differing = sorted(found.offsets ^ log.records.keys())
            yield Broken("Kafka reads every record", f"{name}: {differing[:_SHOWN]}")


def _of_copy(world: World, before: Look, act: Act, copy: Path) -> Iterator[Broken]:
    made = Look.at(copy).logs
    for name, log in before.logs.items():
        if name not in made:
            if not log.trouble:
                yield Broken("a copy has every partition", name)
            continue
        if log.trouble:
            continue  # it is left out, as the exit status says
        if act.is_same and made[name].records != log.records:
            yield Broken("a copy is like its source", f"{name}: {_differing(log, made[name])}")
        context = _Log.of(world, log)
        yield from _of_partition(context, act, made[name], is_held=name in world.held_before)
        yield from _of_producers(world, context, act, made[name])
        yield from _of_trouble(before, act, log, made[name])


def _differing(one: SeenLog, other: SeenLog) -> list[int]:
    return sorted(offset for offset, _ in set(one.records.items()) ^ set(other.records.items()))[:_SHOWN]


def _of_evidence(world: World, before: Look, act: Act, after: Look) -> Iterator[Broken]:
    """Index files that tell of missing records stay, unless a policy lets those records go."""
    for path, piece in world.evidence.items():
        name = path.partition("/")[0]
        is_kept = path in after.files and after.lone.get(path, data := before.lone.get(path)) == data
        if name not in before.logs or is_kept:
            continue
        context = _Log.of(world, before.logs[name], piece)
        lost = [placed.fact.offset for placed in piece.placed if not _may_leave_aside(context, act, piece, placed)]
        if lost and not lost[0] < before.logs[name].log_start:
            yield Broken("what tells of missing records stays", f"{path}: {lost[:_SHOWN]}")
    yield from _of_log_starts(world, before, act, after)
    yield from _of_gaps(world, before, after)


def _of_log_starts(world: World, before: Look, act: Act, after: Look) -> Iterator[Broken]:
    """A log start passes only what policy lets go, also if that lies aside."""
    aside = [(path, before.aside[path]) for path in world.by_hand if path in before.aside]
    for path, piece in [*aside, *world.evidence.items()]:
        name = path.partition("/")[0]
        if name not in before.logs or name not in after.logs:
            continue
        passed = range(before.logs[name].log_start, after.logs[name].log_start)
        context = _Log.of(world, before.logs[name], piece)
        lost = [
            placed.fact.offset
            for placed in piece.placed
            if placed.fact.offset in passed and not _may_leave_aside(context, act, piece, placed)
        ]
        if lost:
            yield Broken("a log start passes no missing record", f"{path}: {lost[:_SHOWN]}")


def _of_gaps(world: World, before: Look, after: Look) -> Iterator[Broken]:
    """No segment reaches over missing records: nobody could put them back."""
    aside = {path: before.aside[path] for path in world.by_hand if path in before.aside}
    told = {path: piece for path, piece in world.evidence.items() if path in before.files}
    for path, piece in (aside | told).items():
        name = path.partition("/")[0]
        if name not in before.logs or name not in after.logs:
            continue
        old, new = before.logs[name], after.logs[name]
        missing = {placed.fact.offset for placed in piece.placed} - old.records.keys() - new.records.keys()
        crossed = [one for one in missing if one >= new.log_start and _spans(new, one) and not _spans(old, one)]
        if crossed:
            yield Broken("no segment reaches over missing records", f"{path}: {sorted(crossed)[:_SHOWN]}")


def _spans(log: SeenLog, offset: int) -> bool:
    spans = ([one.fact.offset for one in piece.placed] for piece in log.pieces if piece.placed)
    return any(offsets[0] < offset < offsets[-1] for offsets in spans)


def lacking(world: World, look: Look) -> set[str]:
    """Return the partitions of which a log lacks what lies aside, or what index files tell of.

    A log lacks nothing that a round replaced, also if the person took the source while the ``.swap`` waits.
    """
    found = set()
    aside = {path: look.aside[path] for path in world.by_hand if path in look.aside}
    told = {path: piece for path, piece in world.evidence.items() if path in look.lone}
    for path, piece in (aside | told).items():
        name = path.partition("/")[0]
        if name in look.logs:
            log = look.logs[name]
            replaced = [range(p.base_offset, p.end_offset) for p in log.pieces if p.path.suffix == ".swap"]
            offsets = [one.fact.offset for one in piece.placed]
            missing = [o for o in offsets if o not in log.records and not any(o in span for span in replaced)]
            if path in told and piece.base_offset < log.log_start:
                continue  # index files alone do not say that records at or above the log start are missing
            if any(offset >= log.log_start for offset in missing):
                found.add(name)
    return found


def _is_of(path: str, name: str) -> bool:
    return path.startswith(f"{name}/")


def _of_command(told: Told) -> Iterator[Broken]:
    words = " ".join(told.words[:4])
    if "Traceback" in told.stderr or told.status == CRASHED:
        yield Broken("an error is one line", f"{words}: {told.stderr[-1500:]}")
    elif not told.was_stopped and told.status not in STATUSES:
        yield Broken("an exit status is documented", f"{words}: {told.status} {told.stderr[-500:]}")
    if told.status == 0 and told.undone:
        yield Broken("what is told as done lasts", f"{words}: {told.undone[:_SHOWN]}")
    if told.status == 0 and ("failed" in told.stderr or "error" in told.stderr.lower()):
        yield Broken("exit 0 means that nothing failed", f"{words}: {told.stderr[-500:]}")
    if told.status == 0 and told.words[0] not in _TELLS_OF_OTHERS and (failed := [*_failures(told.document)]):
        yield Broken("exit 0 means that nothing failed", f"{words}: {failed[:_SHOWN]}")


def _failures(told: object) -> Iterator[object]:
    """Yield what a document says has failed."""
    if isinstance(told, Mapping):
        for name, value in told.items():
            is_failure = (name in _FAILED and value) or (name == "code" and value == "NOT_DONE")
            yield from [{name: value}] if is_failure else _failures(value)
    elif isinstance(told, list):
        for one in told:
            yield from _failures(one)


def _of_partition(before: _Log, act: Act, after: SeenLog, *, is_held: bool) -> Iterator[Broken]:
    log, name = before.log, before.log.name
    gone = log.records.keys() - after.records.keys()
    unallowed = sorted(offset for offset in gone if not _is_allowed(before, act, offset, is_held=is_held))
    if unallowed:
        facts = [(offset, log.records[offset].key, log.records[offset].value) for offset in unallowed[:_SHOWN]]
        yield Broken("no record goes that no policy lets go", f"{name}: {len(unallowed)} of {len(gone)}: {facts}")
    changed = [
        offset for offset in log.records.keys() & after.records.keys() if log.records[offset] != after.records[offset]
    ]
    if changed:
        yield Broken("records stay as they are", f"{name}: {sorted(changed)[:_SHOWN]}")
    if after.end_offset != log.end_offset and not act.may.restores:
        yield Broken("the log end stays", f"{name}: {log.end_offset} became {after.end_offset}")
    if after.log_start < log.log_start and not act.may.restores:
        yield Broken("the log start never goes back", f"{name}: {log.log_start} became {after.log_start}")
    yield from (Broken("transactions stay as they ended", told) for told in of_transactions(log, after))
    if act.may.restores:
        return
    yield from _of_horizons(before, after)
    yield from (Broken("a deleted key stays deleted", told) for told in of_deleted_keys(log, after, before.aside))
    # of all that a limit lets go, a power loss may keep any part, until the next run takes it; a kill keeps the order
    cut_out = [] if _lost_power(act) else [offset for offset in gone if offset >= after.log_start]
    cut_out = [offset for offset in cut_out if not _is_erased(before, act, offset)]
    cut_out = [offset for offset in cut_out if not _is_compacted(before, act, offset)]
    if cut_out and not unallowed:
        yield Broken("limits take the oldest first", f"{name} begins at {after.log_start}: {sorted(cut_out)[:_SHOWN]}")


def _of_horizons(before: _Log, after: SeenLog) -> Iterator[Broken]:
    """A tombstone or marker stays for ``delete.retention.ms`` from the round that first meets it."""
    least_ms = before.now_ms + min((s.delete_retention_ms for s in before.stated if s.compacts), default=1 << 62)
    old = before.log.horizons
    wrong = {offset: ms for offset, ms in after.horizons.items() if ms < old.get(offset, least_ms)}
    if wrong:
        yield Broken("a delete horizon lies behind the round", f"{after.name}: {wrong}, and {least_ms} is the least")


def _of_trouble(before: Look, act: Act, log: SeenLog, after: SeenLog) -> Iterator[Broken]:
    """What is left can be read, unless a restore brings back what was cut before."""
    cut = {str(piece.path).removesuffix(".deleted") for piece in before.aside.values() if piece.trouble}
    new = set(after.trouble) - set(log.trouble)
    if act.may.restores:
        new = {told for told in new if told.partition(": ")[0] not in cut}
    if new:
        yield Broken("what is left can be read", f"{log.name}: {sorted(new)[:_SHOWN]}")


def _is_allowed(before: _Log, act: Act, offset: int, *, is_held: bool) -> bool:
    if offset < act.may.below.get(before.log.name, 0):
        return True
    if _is_erased(before, act, offset):
        return True
    if is_held:
        return False
    return (act.may.retains and before.retention_lets(before.piece_of(offset)[0])) or _is_compacted(before, act, offset)


def _is_erased(before: _Log, act: Act, offset: int) -> bool:
    key = act.may.erases.get(before.log.name)
    return key is not None and before.piece_of(offset)[1].fact.key == key and offset < before.log.stable_end


def _is_compacted(before: _Log, act: Act, offset: int) -> bool:
    return act.may.compacts and before.compaction_lets(*before.piece_of(offset))


def _of_restores(before: Look, act: Act, log: SeenLog, after: SeenLog) -> Iterator[Broken]:
    new = after.records.keys() - log.records.keys()
    if not new:
        return
    known: dict[int, Fact] = {
        placed.fact.offset: placed.fact
        for path, piece in before.aside.items()
        if _is_of(path, log.name)
        for placed in piece.placed
    }
    hidden = {placed.fact.offset: placed.fact for piece in log.pieces for placed in piece.placed}
    known |= hidden  # below the log start, which a restore takes back
    if not act.may.restores:
        yield Broken("nothing appears", f"{log.name}: {sorted(new)[:_SHOWN]}")
    elif strange := [offset for offset in new if known.get(offset) != after.records[offset]]:
        yield Broken("a restore brings back what was there", f"{log.name}: {sorted(strange)[:_SHOWN]}")


def _of_aside(world: World, before: Look, act: Act, after: Look) -> Iterator[Broken]:
    """What a person set aside stays, or is back, or was let go by policy."""
    for path in world.by_hand:
        name = path.partition("/")[0]
        if path not in before.aside or name not in after.logs:
            continue
        piece, kept = before.aside[path], after.aside.get(path)
        there = {placed.fact for placed in kept.placed} if kept else set()
        there |= set(after.logs[name].records.values())
        context = _Log.of(world, before.logs[name], piece)
        lost = [
            placed.fact.offset
            for placed in piece.placed
            if placed.fact not in there and not _may_leave_aside(context, act, piece, placed)
        ]
        if lost:
            yield Broken("what a person set aside stays", f"{path}: {lost[:_SHOWN]}")


def _may_leave_aside(before: _Log, act: Act, piece: Piece, placed: Placed) -> bool:
    if placed.fact.offset < before.log.log_start:  # the log had let go of it already
        return True
    return _is_allowed(before, act, placed.fact.offset, is_held=False)


def _of_plans(act: Act, after: Look) -> Iterator[Broken]:
    """A run does not more than the dry run before it said, and what the dry run measured, exactly that."""
    if act.planned is None or not (done := act.told[0].document):
        return
    planned = _by_name(act.planned)
    for name, partition in _by_name(done).items():
        plan = planned.get(name)
        if plan is None:
            yield Broken("no plan is exceeded by its run", f"{name} was in no plan")
            continue
        if more := _deleted(partition) - _deleted(plan):
            yield Broken("no plan is exceeded by its run", f"{name}: segments {sorted(more)}")
        if figure := _exceeded(plan["result"] or {}, partition["result"] or {}):
            yield Broken("no plan is exceeded by its run", f"{name}: {figure}")
        start = _start_of(plan)
        if name in after.logs and start is not None and after.logs[name].log_start > start:
            yield Broken(
                "no plan is exceeded by its run", f"{name} begins at {after.logs[name].log_start}, not {start}"
            )


def _by_name(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {f"{one['topic']}-{one['partition']}": one for one in document["partitions"]}


def _deleted(partition: Mapping[str, Any]) -> set[int]:
    return {segment["base_offset"] for segment in partition["segments"] if segment["action"] == "delete"}


def _exceeded(planned: Mapping[str, Any], done: Mapping[str, Any]) -> str:
    """Return the first figure of a run that is above that of its plan; or another, if the plan measured it."""
    for key in _FIGURES:
        if done.get(key, 0) > planned.get(key, 0):
            return f"{key} {done[key]}, and {planned.get(key, 0)} were planned"
    is_whole = done.get("compacted_from_bytes") == planned.get("compacted_from_bytes")
    if planned.get("basis") == "exact" and is_whole and done["compacted_to_bytes"] != planned["compacted_to_bytes"]:
        return (
            f"compacted_to_bytes {done['compacted_to_bytes']}, and exactly {planned['compacted_to_bytes']} were planned"
        )
    return ""


def _start_of(plan: Mapping[str, Any]) -> int | None:
    """Return where a log begins behind its plan; None if it could not be read."""
    stays = [segment["base_offset"] for segment in plan["segments"] if segment["action"] != "delete"]
    begins = min(stays, default=plan["log_end_offset"])
    return None if begins is None else max(begins, plan["log_start_offset"])
