"""The report of ``owners``: text for people, ``logcleaner.owners/1`` for machines, from the same values.

The text has, for each topic, its partitions, its groups or transactional ids, and the causes of its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cleaner.report.page import LINES_MAX, Page, in_columns
from cleaner.report.rollup.view import Sort
from policies.config.policy import BrokerPolicy
from policies.facts import UnreadablePartition
from policies.owners.causes import SizeCause, causes_of
from policies.owners.holdings import NO_TIME, Holding, Owner, OwnerState, PartitionOwners, TopicHolding, sum_of
from policies.reasons import counted, duration, size
from storage.names import TopicPartition

if TYPE_CHECKING:
    from cleaner.report.page import Lines

Topics = Sequence[tuple[str, Sequence[PartitionOwners], Sequence[SizeCause]]]
_NOUNS: Final = {"__consumer_offsets": "group", "__transaction_state": "transactional id"}
_ROWS_MIN: Final = 6
_LINES_OF_A_TABLE: Final = 3
"""The lines of a table beside its rows: the headings, the count of the rows left out, and an empty line."""
_FIGURES: Final = ("SIZE", "DIRTY", "RECORDS", "KEYS", "TOMB")
_MINUTE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_ENDLESS_MS: Final = 1 << 62

SCHEMA: Final = "logcleaner.owners/1"


@dataclass(frozen=True, slots=True)
class OwnersReport:
    """The holdings of the partitions of internal topics."""

    now_ms: int
    broker: BrokerPolicy
    partitions: Sequence[PartitionOwners]
    failures: Sequence[UnreadablePartition] = ()

    def document(self) -> dict[str, Any]:
        """Return what ``owners --json`` prints: sizes in bytes, times in epoch ms, null for what is not known."""
        read = [_partition(one) for one in self.partitions]
        failed = [_unreadable(one.topic_partition, one.log_dir, one.error) for one in self.failures]
        return {
            "schema": SCHEMA,
            "now": self.now_ms,
            "offsets_retention_minutes": self.broker.offsets_retention_minutes,
            "transactional_id_expiration_ms": self.broker.transactional_id_expiration_ms,
            "partitions": [*read, *failed],
            "topics": [_topic(topic, members, causes) for topic, members, causes in self.by_topic()],
        }

    def by_topic(self) -> Iterator[tuple[str, list[PartitionOwners], list[SizeCause]]]:
        """Yield each topic with its partitions, and the causes of its size."""
        for topic in dict.fromkeys(one.name.topic for one in self.partitions):
            members = [one for one in self.partitions if one.name.topic == topic]
            yield topic, members, causes_of(members, self.broker)

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the topics one after the other."""

        fill(page, self.now_ms, list(self.by_topic()), self.failures)
        yield page.text


def fill(page: Page, now_ms: int, topics: Topics, failures: Sequence[UnreadablePartition]) -> None:
    """Fill a page.

    Args:
        page: the page.
        now_ms: the moment of the report, epoch ms.
        topics: each with its partitions, and the causes of its size.
        failures: the partitions that could not be read.
    """
    for room in (_ALL,) if page.view.every_segment else _ROOMS:
        drafts = [_around(page, topic, partitions, causes, room) for topic, partitions, causes in topics]
        used = sum(above.lines + below.lines + _LINES_OF_A_TABLE for above, below in drafts)
        rows_max = max((LINES_MAX - used) // max(len(topics), 1), _ROWS_MIN)
        if used + rows_max * len(topics) <= LINES_MAX:
            break
    for (topic, partitions, _), (above, below) in zip(topics, drafts, strict=True):
        page.text.extend(above.text)
        if not page.view.summary_only:
            _owners(page, topic, partitions, now_ms, rows_max)
        page.text.extend(below.text)
    for failure in failures:
        page.line(f"FAILED {failure.topic_partition} in {failure.log_dir}: {failure.error}", "bold red", hanging=2)
    if not topics and not failures:
        page.line("No log dir here holds __consumer_offsets or __transaction_state.")


def _partition(found: PartitionOwners) -> dict[str, Any]:
    facts = found.explained.planned.facts
    return {
        "topic": found.name.topic,
        "partition": found.name.partition,
        "log_dir": facts.log_dir,
        "error": None,
        "bytes": found.size_bytes,
        "log_start_offset": facts.log_start_offset,
        "log_end_offset": facts.log_end_offset,
        "first_dirty_offset": found.first_dirty_offset,
        "held": _holding(found.holding),
        "owners": [_owner(owner) for owner in found.owners],
        "others": [{"what": one.what, "records": one.records, "bytes": one.size_bytes} for one in found.others],
        "problems": list(found.problems),
    }


def _holding(holding: Holding) -> dict[str, Any]:
    return {
        "bytes": holding.size_bytes,
        "dirty_bytes": holding.dirty_bytes,
        "superseded_bytes": holding.superseded_bytes,
        "records": holding.records,
        "superseded_records": holding.superseded_records,
        "live_keys": holding.live_keys,
        "tombstones": holding.tombstones,
        "first_record_ms": None if holding.first_ms == NO_TIME else holding.first_ms,
        "last_record_ms": None if holding.last_ms == NO_TIME else holding.last_ms,
    }


def _owner(owner: Owner) -> dict[str, Any]:
    return {
        "name": owner.name,
        "state": owner.state.value,
        "protocol": owner.protocol,
        "members": owner.members,
        "last_ms": owner.last_ms,
        "expired": owner.expired,
        **_holding(owner.holding),
        "topics": [_topic_holding(topic) for topic in owner.topics],
    }


def _topic_holding(held: TopicHolding) -> dict[str, Any]:
    return {"topic": held.topic, "expired": held.expired, **_holding(held.holding)}


def _unreadable(name: TopicPartition, log_dir: str, error: str) -> dict[str, Any]:
    return {"topic": name.topic, "partition": name.partition, "log_dir": log_dir, "error": error}


def _topic(topic: str, members: Sequence[PartitionOwners], causes: Sequence[SizeCause]) -> dict[str, Any]:
    return {
        "topic": topic,
        "partitions": len(members),
        "bytes": sum(one.size_bytes for one in members),
        "superseded_bytes": sum(one.holding.superseded_bytes for one in members),
        "causes": [
            {
                "code": cause.code.value,
                "partition": cause.partition,
                "text": cause.text,
                "remedy": cause.remedy,
                "bytes": cause.size_bytes,
            }
            for cause in causes
        ],
    }


def _around(
    page: Page, topic: str, partitions: Sequence[PartitionOwners], causes: Sequence[SizeCause], room: _Room
) -> tuple[Page, Page]:
    """Return the lines above the table of a topic's owners, and the lines below it."""
    above, below = page.draft(), page.draft()
    _head(above, topic, partitions)
    if not page.view.summary_only:
        _partitions(above, partitions, room)
    _others(below, partitions)
    _why(below, partitions, causes, room)
    below.line()
    return above, below


class _Room(NamedTuple):
    """The most partitions and causes of a topic in the report; None for all."""

    partitions: int | None
    causes: int | None


_ALL: Final = _Room(None, None)
_ROOMS: Final = (_Room(8, 5), _Room(5, 3), _Room(3, 2), _Room(2, 1))
"""The bounds that are tried one after the other, until the report fits ``LINES_MAX``."""


def _head(page: Page, topic: str, partitions: Sequence[PartitionOwners]) -> None:
    holding = _sum(partitions)
    size_bytes = sum(one.size_bytes for one in partitions)
    owners = counted(sum(len(one.owners) for one in partitions), _NOUNS[topic])
    dirty = "all" if holding.dirty_bytes >= size_bytes else size(holding.dirty_bytes)
    words = f"{topic}: {counted(len(partitions), 'partition')}, {size(size_bytes)}, {dirty} dirty"
    page.line(f"{words}; {owners}, {counted(holding.live_keys, 'live key')}", "bold", hanging=2)


def _sum(partitions: Sequence[PartitionOwners]) -> Holding:
    return sum_of(one.holding for one in partitions)


def _others(page: Page, partitions: Sequence[PartitionOwners]) -> None:
    """Add the records that belong to nobody, and the errors of decoding."""
    whats = dict.fromkeys(other.what for one in partitions for other in one.others)
    told = []
    for what in whats:
        same = [other for one in partitions for other in one.others if other.what == what]
        records, size_bytes = sum(other.records for other in same), sum(other.size_bytes for other in same)
        told.append(f"{what} {size(size_bytes)}" + (f" ({records:,})" if records else ""))
    if told:
        page.line(f"Beside them: {', '.join(told)}.", hanging=2)
    for one in partitions:
        for problem in one.problems:
            page.line(f"{one.name}: {problem}", "bold yellow", hanging=2)


def _why(page: Page, partitions: Sequence[PartitionOwners], causes: Sequence[SizeCause], room: _Room) -> None:
    """Add the causes of the topic's size, and the remedies."""
    holding = _sum(partitions)
    if not holding.records:
        return
    all_bytes, gone_bytes = sum(one.size_bytes for one in partitions), holding.superseded_bytes
    words = "Each record is the latest of its key: compaction would free nothing."
    if gone_bytes:
        dropped = f"{counted(holding.superseded_records, 'record')} of {holding.records:,}"
        words = f"Compaction of all of it would drop {dropped}: {size(gone_bytes)} of {size(all_bytes)}."
    page.line(words, "bold", hanging=2)
    told = causes[: room.causes]
    for cause in told:
        page.line(f"{cause.code}, {size(cause.size_bytes)}: {cause.text} {cause.remedy}", indent=2, hanging=2)
    if left := len(causes) - len(told):
        page.note(f"and {counted(left, 'more cause')}; -v tells them")


def _partitions(page: Page, partitions: Sequence[PartitionOwners], room: _Room) -> None:
    """Add a row for each partition with records, the largest first; for a single partition the headline says all."""
    held = sorted((one for one in partitions if one.size_bytes), key=lambda one: -one.size_bytes)
    if len(partitions) == 1 or not held:
        return
    several = len({one.explained.planned.facts.log_dir for one in partitions}) > 1
    shown = held[: room.partitions]
    rows: list[Sequence[str]] = [("PARTITION", "OWNERS", *_FIGURES)]
    for one in shown:
        name = f"{one.name} in {one.explained.planned.facts.log_dir}" if several else str(one.name)
        rows.append((name, f"{len(one.owners):,}", size(one.size_bytes), *_figures(one.holding)[1:]))
    _table(page, rows, 1)
    if left := len(held) - len(shown):
        page.note(f"and {counted(left, 'more partition')}; -v shows every one")
    if empty := len(partitions) - len(held):
        page.note(f"and {counted(empty, 'empty partition')}")
    page.line()


def _table(page: Page, rows: Sequence[Sequence[str]], first_figure: int, styles: Sequence[str] = ()) -> None:
    lines = in_columns(rows, page, range(first_figure, len(rows[0])), gap=" ")
    for line, style in zip(lines, styles or ("bold", *("" for _ in rows[1:])), strict=True):
        page.row(line, style)


def _figures(holding: Holding) -> tuple[str, ...]:
    sizes = size(holding.size_bytes), size(holding.dirty_bytes)
    return (*sizes, f"{holding.records:,}", f"{holding.live_keys:,}", f"{holding.tombstones:,}")


def _owners(page: Page, topic: str, partitions: Sequence[PartitionOwners], now_ms: int, rows_max: int) -> None:
    view = page.view
    rows = [_Row(one.name, owner) for one in partitions for owner in one.owners]
    rows.sort(key=lambda row: (*_rank(row.owner, view.sort), row.owner.name))
    shown = rows[: view.limit or (len(rows) if view.every_segment else rows_max)]
    if not shown:
        return
    noun = _NOUNS[topic]
    cells: list[Sequence[str]] = [(noun.upper(), "STATE", "LAST", *_FIGURES)]
    styles = ["bold"]
    for row in shown:
        cells.append((row.owner.name, _state(row.owner), _ago(row.owner.last_ms, now_ms), *_figures(row.owner.holding)))
        styles.append("" if row.owner.state is OwnerState.ACTIVE or not row.owner.topics else "yellow")
        for held in row.owner.topics if view.every_segment else ():
            cells.append((f"  {_topic_name(held)}", _expired(held.expired), "", *_figures(held.holding)))
            styles.append("dim")
    _table(page, cells, 3, styles)
    if left := rows[len(shown) :]:
        left_bytes = sum(row.owner.holding.size_bytes for row in left)
        page.note(f"and {counted(len(left), f'more {noun}')}, {size(left_bytes)}; --limit N shows more, -v all")
    page.line()


class _Row(NamedTuple):
    """An owner with its place."""

    partition: TopicPartition
    owner: Owner


def _state(owner: Owner) -> str:
    if owner.state is OwnerState.ACTIVE and owner.members is not None:
        return counted(owner.members, "member")
    return "expired" if owner.expired and owner.expired >= _offsets(owner) else owner.state.value


def _offsets(owner: Owner) -> int:
    """Return the number of the owner's live keys that may expire."""
    if not owner.topics:
        return owner.holding.live_keys
    return sum(held.holding.live_keys for held in owner.topics if held.topic is not None)


def _ago(last_ms: int | None, now_ms: int) -> str:
    """Return how long ago something was, in one unit from a day on."""
    if last_ms is None:
        return "-"
    span_ms = now_ms - last_ms
    if span_ms < 0:
        return "future"
    if span_ms < _MINUTE_MS:
        return "now"
    return f"{span_ms // _DAY_MS}d ago" if span_ms >= _DAY_MS else f"{duration(span_ms // _MINUTE_MS * _MINUTE_MS)} ago"


def _expired(expired: int) -> str:
    return f"{expired:,} expired" if expired else ""


def _rank(owner: Owner, sort: Sort | None) -> tuple[int, ...]:
    holding = owner.holding
    match sort:
        case Sort.RECLAIM:
            return (-holding.superseded_bytes,)
        case Sort.DIRTY:
            return (-holding.dirty_bytes,)
        case Sort.EXPIRY:
            return (-owner.expired, _ENDLESS_MS if owner.last_ms is None else owner.last_ms)
        case _:
            return (-holding.size_bytes,)


def _topic_name(held: TopicHolding) -> str:
    return "(the group itself)" if held.topic is None else held.topic
