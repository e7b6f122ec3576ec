"""Draws the steps of a life: each from its own random numbers, and from what Kafka says of the log by then."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from storage.records import ControlType
from tests.interop.lives.batches import Maker, Sequenced
from tests.interop.lives.life import Life
from tests.interop.lives.steps import Known, State, Step

_PRODUCERS: Final = (1000, 1001, 1002)
_TRANSACTIONAL: Final = (2000, 2001, 2002)
_SEQUENCE_MAX: Final = (1 << 31) - 1
_SPECIAL_TIMES: Final = (-1, -2, -3, -3, -4, -5, -6)


def draw(life: Life, index: int, state: State) -> list[Step]:
    """Return the calls of the step number ``index`` of a life: one call, or those that close a log and open it
    again.
    """
    return Drawing(life, index, state).steps()


class Drawing:
    """One step of a life."""

    def __init__(self, life: Life, index: int, state: State) -> None:
        self._life, self._state, self._now_ms = life, state, life.times_ms[index]
        self._dice = life.dice(index)
        self._make = Maker(life, self._dice, self._now_ms)

    def steps(self) -> list[Step]:
        """Draw the kind of step, then the step."""
        kinds: dict[Callable[[], list[Step]], int] = {
            self._lookup: 8,
            self._roll: 3,
            self._flush: 3,
            self._increment: 4,
            self._reopen: 5,
        }
        if self._life.role != "follower":
            kinds |= {self._append: 34, self._end_transaction: 8, self._append_spoiled: 7}
        if self._life.role != "leader":
            kinds |= {self._follow: 34}
        (drawn,) = self._dice.choices(list(kinds), weights=list(kinds.values()))
        return drawn()

    # ---- appends of a leader

    def _append(self) -> list[Step]:
        if self._life.has_legacy_input and self._dice.random() < 0.3:
            return [self._appended(self._make.legacy(), "messages of version 0 or 1")]
        data, note = self._batch()
        if self._dice.random() < 0.04:
            more, another = self._batch()
            data, note = data + more, f"{note} and {another}"
        return [self._appended(data, note)]

    def _append_spoiled(self) -> list[Step]:
        if self._life.has_legacy_input and self._dice.random() < 0.2:
            data = self._make.legacy()
            data = data[: self._dice.randrange(len(data))] + self._dice.randbytes(self._dice.randrange(2))
            return [self._appended(data, "spoiled messages of version 0 or 1")]
        data, note = self._batch()
        spoiled, way = self._make.spoiled(data)
        # Of a coordinator Kafka would take records whose offsets do not fit: no coordinator sends them.
        origin = {"epoch": self._epoch(), "origin": "CLIENT"}
        return [Step("append", {"data": spoiled, **origin}, f"{way} of {note}")]

    def _appended(self, data: bytes, note: str, origin: str = "CLIENT") -> Step:
        if origin == "CLIENT" and self._dice.random() < 0.03:
            origin = "COORDINATOR"
        return Step("append", {"data": data, "epoch": self._epoch(), "origin": origin}, note)

    def _batch(self) -> tuple[bytes, str]:
        die = self._dice.random()
        if die < 0.35:
            return self._make.data(), "plain"
        producer_id = self._dice.choice(_PRODUCERS if die < 0.7 else _TRANSACTIONAL)
        is_transactional = (producer_id in _TRANSACTIONAL) != (self._dice.random() < 0.03)
        producer, count, note = self._sequenced(producer_id)
        data = self._make.data(producer, count=count, is_transactional=is_transactional)
        return data, f"{note} of {producer_id}{' transactional' if is_transactional else ''}"

    def _sequenced(self, producer_id: int) -> tuple[Sequenced, int, str]:
        """Epoch and sequence of the next batch of a producer, or of one that it must not send; and how many records."""
        known = self._state.producer(producer_id)
        if known is None:
            first = self._dice.choice((0, 0, 0, 5, _SEQUENCE_MAX - 3))
            return (producer_id, self._dice.randrange(3), first), 0, f"first, from {first}"
        epoch, following = known.epoch, known.next_sequence
        kinds: dict[str, tuple[int, tuple[int, int, int]]] = {
            "next": (72, (epoch, following, 0)),
            "duplicate, or nearly": (10, (epoch, *self._sent(known))),
            "gap": (5, (epoch, (following + self._dice.choice((1, 3, -40, -1))) % (1 << 31), 0)),
            "old epoch": (4, (max(0, epoch - 1), following, 0)),
            "bumped epoch": (6, (epoch + 1, 0, 0)),
            "bumped epoch, not from 0": (3, (epoch + self._dice.choice((1, 2)), following, 0)),
        }
        (note,) = self._dice.choices(list(kinds), weights=[weight for weight, _ in kinds.values()])
        _, (epoch, first, count) = kinds[note]
        return (producer_id, epoch, first), count, note

    def _sent(self, known: Known) -> tuple[int, int]:
        """First sequence and number of records of a batch that the log remembers; now and then a record more."""
        if not known.batches:
            return known.next_sequence, 0
        last_sequence, _, delta, _ = self._dice.choice(known.batches)
        return (last_sequence - delta) % (1 << 31), delta + self._dice.choice((1, 1, 1, 1, 2))

    def _end_transaction(self) -> list[Step]:
        data, note = self._marker()
        origin = "CLIENT" if self._dice.random() < 0.06 else "COORDINATOR"
        return [self._appended(data, note, origin)]

    def _marker(self) -> tuple[bytes, str]:
        opened = [known for known in self._state.producers if known.open_txn_first_offset is not None]
        known = self._dice.choice(opened) if opened and self._dice.random() < 0.9 else self._anybody()
        die, epoch, coordinator = self._dice.random(), known.epoch, max(0, known.coordinator_epoch)
        note, kind = "marker", self._dice.choice((ControlType.ABORT, ControlType.COMMIT))
        if die < 0.06:
            epoch, note = max(0, epoch - 1), "marker of an old epoch"
        elif die < 0.16:
            epoch, note = epoch + 1, "marker of a bumped epoch"
        elif die < 0.22:
            coordinator, note = max(0, coordinator - 1), "marker of an old coordinator"
        elif die < 0.3:
            coordinator += 1
        elif die < 0.32:
            kind, note = ControlType.LEADER_CHANGE, "marker of another kind"
        return self._make.marker(known.producer_id, epoch, coordinator, kind), f"{note} of {known.producer_id}"

    def _anybody(self) -> Known:
        producer_id = self._dice.choice((*_TRANSACTIONAL, *_PRODUCERS))
        return self._state.producer(producer_id) or Known(producer_id, 0, 0, -1, None, ())

    def _epoch(self) -> int:
        """The leader epoch, now and then the next one; sometimes one that is over."""
        die, latest = self._dice.random(), self._state.latest_epoch
        if die < 0.05:
            return latest + 1 + self._dice.randrange(2)
        return max(0, latest - 1) if die < 0.06 else latest

    # ---- appends of a follower

    def _follow(self) -> list[Step]:
        offset, epoch, data, notes = self._state.log_end_offset, self._epoch(), b"", []
        epochs = {known.producer_id: known.epoch for known in self._state.producers}
        die = self._dice.random()
        if die < 0.06:
            offset = max(0, offset + self._dice.choice((-3, -1, 2, 50)))
            notes.append("not from the log end")
        for _ in range(self._dice.choice((1, 1, 2, 4))):
            draw_one = self._marker if self._dice.random() < 0.2 else self._batch
            batch, note = draw_one()
            while not self._is_of_newest_epoch(batch, epochs):  # no leader has it: it fenced the producer
                batch, note = draw_one()
            data += placed(batch, offset, epoch)
            offset += struct.unpack_from(">i", batch, 23)[0] + 1
            notes.append(note)
            if self._dice.random() < 0.06:
                offset += self._dice.choice((-2, 5))
                notes.append("(offsets leap)")
            if self._dice.random() < 0.06:
                epoch += 1
        data, is_torn = self._torn(data)
        leader_epoch = epoch if self._dice.random() < 0.9 else max(0, epoch - 1)
        note = ", ".join(notes) + (" torn" if is_torn else "")
        return [Step("follow", {"data": data, "epoch": leader_epoch}, note)]

    def _is_of_newest_epoch(self, batch: bytes, epochs: dict[int, int]) -> bool:
        """Whether the epoch of a batch's producer is not over; it is noted."""
        producer_id, epoch = struct.unpack_from(">qh", batch, 43)
        if epoch < epochs.get(producer_id, -1):
            return False
        epochs[producer_id] = epoch
        return True

    def _torn(self, data: bytes) -> tuple[bytes, bool]:
        die = self._dice.random()
        if die < 0.04:
            return data[: -self._dice.randrange(1, len(data))], True
        if die < 0.08:
            spoiled, _ = self._make.spoiled(data)
            return spoiled, True
        return data, False

    # ---- what else a log is asked for

    def _lookup(self) -> list[Step]:
        die = self._dice.random()
        time_ms = (
            self._dice.choice(_SPECIAL_TIMES) if die < 0.4 else self._now_ms - self._dice.randrange(-2_000, 60_000)
        )
        if die > 0.8:
            time_ms = self._now_ms - self._dice.randrange(5_000)
        return [Step("lookup", {"time": time_ms})]

    def _offset(self) -> int:
        """An offset anywhere, often at an edge."""
        state = self._state
        edges = [state.log_start_offset, state.log_end_offset, *(base for base, _ in state.segments)]
        if self._dice.random() < 0.4:
            return self._dice.choice(edges) + self._dice.choice((0, 0, 0, -1, 1))
        return self._dice.randint(state.log_start_offset, max(state.log_start_offset, state.log_end_offset))

    def _roll(self) -> list[Step]:
        end, die = self._state.log_end_offset, self._dice.random()
        if die < 0.7:
            # Kafka would make an empty segment anew.
            return [Step("roll")] if self._state.segments[-1][1] else self._flush()
        if die < 0.8 or self._life.role == "leader":
            if not self._state.segments[-1][1]:
                return self._flush()
            return [Step("roll", {"at": max(0, end - self._dice.randrange(2))})]
        # Above the log end only for what begins there: Kafka's log end stays where it is until then.
        begin = end + self._dice.choice((1, 30))
        data = placed(self._make.data(), begin, self._state.latest_epoch)
        return [Step("roll", {"at": begin}), Step("follow", {"data": data, "epoch": self._state.latest_epoch})]

    def _flush(self) -> list[Step]:
        return [Step("flush")]

    def _increment(self) -> list[Step]:
        offset = self._offset() if self._dice.random() < 0.5 else self._near_start()
        return [Step("increment", {"to": max(0, offset)})]

    def _near_start(self) -> int:
        """A little above the log start."""
        start, end = self._state.log_start_offset, self._state.log_end_offset
        return start + self._dice.randrange(max(1, (end - start) // 3 + 1))

    def _reopen(self) -> list[Step]:
        """A clean stop and the start behind it."""
        return [Step("close"), Step("open", {"start": self._state.log_start_offset})]


def placed(batch: bytes, offset: int, epoch: int) -> bytes:
    """Give a batch its base offset and leader epoch, which its CRC does not cover."""
    return struct.pack(">q", offset) + batch[8:12] + struct.pack(">i", epoch) + batch[16:]
