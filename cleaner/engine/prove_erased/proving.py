"""Search all files of some log dirs, and tell when each file that holds a key is gone.

For a file of a log, the rules of the log decide, by the facts of its partition, read as for ``explain``. For any other
file, its name and its directory decide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.explain.explaining import Look, observe
from cleaner.engine.leftovers import Leftovers
from cleaner.engine.prove_erased.places import FileContent, FileHome, FilePlace, Wants, places_in
from cleaner.engine.prove_erased.searching import FileEvidence, KeyHits, KeyMatcher, search
from cleaner.engine.prove_erased.wanted import KeyEncoding, WantedKey
from policies.config.config_layers import ConfigLayers
from policies.explain.fates import Case, case_of
from policies.explain.observations import TopicHere
from policies.facts import LogDirFacts
from policies.plan import PartitionPlan, Plan, Request
from policies.prove_erased import Departure, DepartureCode, FileHolding, Need, departure
from policies.reasons import moment
from storage.errors import CorruptIndex, LogCleanerError, UnreadableFile
from storage.log.listing import Listing, list_partition
from storage.log.recovery import plan_recovery
from storage.log_dir import LogDir, read_file
from storage.names import FileKind, FileState, TopicPartition
from storage.segment import SegmentFile
from storage.stores.paths import path_of_text
from storage.tiers.view import TierView, is_of_tier
from storage.txn_index import AbortedTxn, parse_txn_index

Departures = Mapping[tuple[Path, int], Departure]
"""Path of a file and place of a key -> the departure."""
_ELSEWHERE: Final = {
    FileHome.STRAY: (DepartureCode.STRAY, Need.REMOVE, "The broker no longer has this replica; nothing removes it."),
    FileHome.FUTURE: (
        DepartureCode.FUTURE, Need.BROKER,
        "A replica move fills this directory: once the broker has finished the move, the rules of the log hold here.",
    ),
    FileHome.COPY: (DepartureCode.COPY, Need.REMOVE, "Somebody copied it here, and nothing removes it."),
    FileHome.OTHER: (DepartureCode.COPY, Need.REMOVE, "It lies in no partition directory, and nothing removes it."),
}  # fmt: skip

_IN_A_TIER: Final = (
    DepartureCode.KEPT,
    Need.BROKER,
    "It lies in a tier: the topic's retention there removes it, or the deletion of the topic; an orphan stays.",
)

_NO_PARTITION: Final = "."
_LOOKS_MAX: Final = 8
"""The most times that the log dirs are listed: a broker at work makes new files while others are searched."""


@dataclass(frozen=True, slots=True)
class KeySearch:
    """The keys, and the places that are searched."""

    keys: tuple[WantedKey, ...]
    encoding: KeyEncoding
    log_dirs: tuple[Path, ...]
    globs: tuple[str, ...] = ()
    """Over topics or partitions; empty means all files."""


@dataclass(frozen=True, slots=True)
class ErasureProof:
    """The files that were searched, and the moments at which files with a key are gone."""

    now_ms: int
    question: KeySearch
    evidences: tuple[FileEvidence, ...]
    departures: Departures
    locked_by: tuple[str, ...] = ()
    """The processes that hold log dirs. What these processes write during the search is not searched."""
    is_settled: bool = True
    """False if new files kept appearing until the end of the search."""
    remote_topics: tuple[str, ...] = ()
    """Topics with remote storage, whose segments lie elsewhere, too."""

    @property
    def holding(self) -> tuple[FileEvidence, ...]:
        """The files that hold a key."""
        return tuple(evidence for evidence in self.evidences if evidence.hits)

    @property
    def undecoded(self) -> tuple[FileEvidence, ...]:
        """The files with a part that could not be decoded."""
        return tuple(evidence for evidence in self.evidences if evidence.undecoded)

    @property
    def unread(self) -> tuple[FileEvidence, ...]:
        """The files that could not be read."""
        return tuple(evidence for evidence in self.evidences if evidence.error is not None)

    @property
    def bytes_read(self) -> int:
        """The bytes that were searched."""
        return sum(evidence.size_bytes for evidence in self.evidences if evidence.sha256 is not None)

    @property
    def gone_by_ms(self) -> int | None:
        """The moment by which no file holds a key any more; None if there is no such moment for a file."""
        moments_ms = [one.at_ms for one in self.departures.values()]
        known_ms = [at_ms for at_ms in moments_ms if at_ms is not None]
        return max(known_ms, default=None) if len(known_ms) == len(moments_ms) else None

    @property
    def needs(self) -> tuple[Need, ...]:
        """The events that must happen before that, besides the passing of time."""
        return tuple(need for need in Need if any(need in one.needs for one in self.departures.values()))


class HolderPlans(NamedTuple):
    """The means to plan."""

    plan: Callable[[Request], Plan]
    layers: ConfigLayers


def prove(
    now_ms: int,
    question: KeySearch,
    wants: Wants | None,
    survey: HolderPlans,
    advance: Callable[[int], None] = lambda _: None,
) -> ErasureProof:
    """Search every file, and return when each file that holds a key is gone.

    Args:
        now_ms: the moment for which dates are computed, epoch ms.
        question, wants, advance: as for ``searched``.
        survey: makes the plan of the partitions that hold a key.

    Raises: UnreadableFile of a directory; what ``survey`` raises.
    """
    evidences, is_settled = searched(question, wants, advance)
    holding = [evidence for evidence in evidences if evidence.hits]
    plan = survey.plan(Request(now_ms, in_place=True, topics=_names(holding))) if holding else None
    departures = Departing(plan, survey.layers).of(holding) if plan else {}
    remote = {
        planned.facts.topic_partition.topic
        for planned in (plan.partitions if plan else ())
        if isinstance(planned, PartitionPlan) and planned.policy.remote_storage_enable
    }
    locked_by = tuple(filter(None, (LogDir(path).locked_by() for path in question.log_dirs)))
    return ErasureProof(now_ms, question, evidences, departures, locked_by, is_settled, tuple(sorted(remote)))


def under_names_in_tier(proof: ErasureProof, view: TierView) -> ErasureProof:
    """Return a proof that names the files of a tier as they lie there."""
    evidences, departures = list[FileEvidence](), dict(proof.departures)
    for evidence in proof.evidences:
        place = evidence.place
        if not is_of_tier(place.log_dir):
            evidences.append(evidence)
            continue
        found = view.object_of(place.path)
        if not place.size_bytes and place.content is FileContent.RECORDS:
            continue  # it only shows that the segment before it is sealed
        for hits in evidence.hits:
            departures[found, hits.key] = departures.pop((place.path, hits.key))
        at_home = place._replace(path=found, log_dir=view.tier.path)
        evidences.append(dataclasses.replace(evidence, place=at_home))
    log_dirs = tuple(view.tier.path if is_of_tier(path) else path for path in proof.question.log_dirs)
    question = dataclasses.replace(proof.question, log_dirs=log_dirs)

    return dataclasses.replace(
        proof, question=question, evidences=tuple(evidences), departures=departures, remote_topics=()
    )


def list_places(log_dirs: Iterable[Path], wants: Wants | None) -> dict[tuple[Path, int], FilePlace]:
    """Return every file of some log dirs, by path and inode. Raises: UnreadableFile."""
    return {(place.path, place.inode): place for log_dir in log_dirs for place in places_in(log_dir, wants)}


def searched(
    question: KeySearch, wants: Wants | None, advance: Callable[[int], None]
) -> tuple[tuple[FileEvidence, ...], bool]:
    """Search every file; files that appear meanwhile, too.

    Args:
        question: the keys and the log dirs.
        wants: chooses partitions; None takes every file.
        advance: hears the number of bytes searched since the last call, which may be none; may raise Stopped.

    Returns: the evidence of each file, ascending by path, and whether no new file appeared in the end.
    Raises: UnreadableFile of a directory.
    """
    aborted = AbortedIn()
    matcher, found = KeyMatcher(question.keys), dict[tuple[Path, int], FileEvidence | None]()
    for _ in range(_LOOKS_MAX):
        places = list_places(question.log_dirs, wants)
        new = [place for key, place in places.items() if key not in found]
        if not new:
            break
        for place in new:
            in_directory = aborted.directory(place.path.parent)
            found[place.path, place.inode] = search(place, matcher, in_directory, lambda: advance(0))
            advance(place.size_bytes if place.content is FileContent.RECORDS else 0)
    evidences = (evidence for evidence in found.values() if evidence is not None)
    is_settled = all(key in found for key in list_places(question.log_dirs, wants))
    return tuple(sorted(evidences, key=lambda one: one.place.path)), is_settled


class Departing:
    """The plan of the log dirs, from which departures follow."""

    def __init__(self, plan: Plan, layers: ConfigLayers) -> None:
        """Prepare.

        Args:
            plan: of all partitions that hold a key.
            layers: state the delays of topics that no plan contains.
        """
        self._now_ms, self._request = plan.request.now_ms, plan.request
        self._layers, self._broker = layers, layers.broker_policy()
        self._plans: dict[tuple[str, TopicPartition], tuple[LogDirFacts, PartitionPlan]] = {
            planned.key: (log_dir.facts, planned)
            for log_dir in plan.log_dirs
            for planned in log_dir.partitions
            if isinstance(planned, PartitionPlan)
        }
        self._failures = {(failed.log_dir, failed.topic_partition): failed.error for failed in plan.failures}

    def of(self, evidences: Iterable[FileEvidence]) -> Departures:
        """Return, for each file and each key found in it, when the file no longer holds the key."""
        found: dict[tuple[Path, int], Departure] = {}
        live: dict[tuple[str, TopicPartition], list[FileEvidence]] = {}
        for evidence in evidences:
            place = evidence.place
            if place.home is FileHome.LIVE and place.topic_partition is not None:
                live.setdefault((str(place.log_dir), place.topic_partition), []).append(evidence)
                continue
            found.update(((place.path, hits.key), self._elsewhere(place)) for hits in evidence.hits)
        for key, group in live.items():
            found |= self._of_log(key, group)
        return found

    def _elsewhere(self, place: FilePlace) -> Departure:
        if place.home is FileHome.DELETE and place.topic_partition is not None:
            delay_ms = self._layers.policy_for(place.topic_partition.topic).file_delete_delay_ms
            at_ms = max(place.changed_ms + delay_ms, self._now_ms)
            text = "The topic was deleted: a broker that runs removes the directory after file.delete.delay.ms."
            return Departure(DepartureCode.TOPIC_DELETED, at_ms, (Need.BROKER,), text)
        code, need, text = _IN_A_TIER if is_of_tier(place.log_dir) else _ELSEWHERE[place.home]
        return Departure(code, None, (need,), text)

    def _of_log(self, key: tuple[str, TopicPartition], group: Sequence[FileEvidence]) -> Departures:
        if key not in self._plans:
            cause = self._failures.get(key, "the plan does not contain it; run again")
            return _all_unknown(group, f"The partition cannot be read: {cause}")
        log_dir, planned = self._plans[key]
        if log_dir.errors:
            return _all_unknown(group, f"Nothing in this log dir is touched: {log_dir.errors[0]}")
        try:
            listing = list_partition(path_of_text(key[0]) / str(key[1]))
            log = _LogWithKeys(planned, listing, self._case(log_dir, planned))
        except LogCleanerError as error:
            return _all_unknown(group, f"The partition cannot be read: {error}")
        return log.departures(group, self._now_ms)

    def _case(self, log_dir: LogDirFacts, planned: PartitionPlan) -> Case:
        topic = TopicHere(1, planned.facts.size_bytes)
        seen = observe(log_dir, planned, topic, Look(self._now_ms, self._broker.producer_id_expiration_ms))
        return case_of(planned, seen, self._request, self._broker)


class AbortedIn:
    """The transaction indexes of directories, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, Sequence[AbortedTxn]] = {}

    def directory(self, directory: Path) -> Sequence[AbortedTxn]:
        """Return the aborted transactions of a partition directory; none from an index that cannot be read."""
        if directory not in self._known:
            self._known[directory] = list(dict.fromkeys(_aborted_in(directory)))
        return self._known[directory]


def _names(holding: Iterable[FileEvidence]) -> tuple[str, ...]:
    """Return the partitions whose logs or leftovers hold a key; if no partition does, a name that no partition has."""
    live = {
        str(evidence.place.topic_partition) for evidence in holding if evidence.place.home is FileHome.LIVE
    }  # fmt: skip
    return tuple(sorted(live)) or (_NO_PARTITION,)


def _all_unknown(group: Sequence[FileEvidence], text: str) -> Departures:
    unknown = Departure(DepartureCode.KEPT, None, (Need.CONFIRM,), text)
    return {(evidence.place.path, hits.key): unknown for evidence in group for hits in evidence.hits}


class _LogWithKeys:
    """One partition directory in which keys were found."""

    def __init__(self, planned: PartitionPlan, listing: Listing, case: Case) -> None:
        self._case = case
        self._listing = listing
        self._files = {file.path: file for file in listing.files}
        self._bases = {segment.log.path: segment.base_offset for segment in plan_recovery(listing).listing.segments}
        self._left = Leftovers.of(planned, listing, planned.policy.file_delete_delay_ms)

    def departures(self, group: Sequence[FileEvidence], now_ms: int) -> Departures:
        """Return when each file no longer holds each of its keys."""
        latest = self._latest(group)
        found: dict[tuple[Path, int], Departure] = {}
        for evidence in group:
            for hits in evidence.hits:
                path = evidence.place.path
                if path in self._bases:
                    found[path, hits.key] = departure(self._case, self._holding(path, hits, latest[hits.key]))
                else:
                    found[path, hits.key] = self._leftover(evidence.place, now_ms)
        return found

    def _latest(self, group: Sequence[FileEvidence]) -> Mapping[int, KeyHits]:
        """Return for each key its records in the segment that has the last one."""
        latest: dict[int, KeyHits] = {}
        for evidence in group:
            for hits in evidence.hits if evidence.place.path in self._bases else ():
                known = latest.get(hits.key)
                if known is None or _rank(hits) > _rank(known):
                    latest[hits.key] = hits
        return latest

    def _holding(self, path: Path, hits: KeyHits, latest: KeyHits) -> FileHolding:
        last, own = latest.last, hits.last
        assert last is not None
        assert own is not None
        is_tombstone, base = last.value_bytes is None, self._bases[path]
        if own.is_aborted and (last.is_aborted or own.offset > last.offset):
            return FileHolding(base, own.offset, False, False, None, is_aborted=True)
        return FileHolding(base, last.offset, hits is latest, is_tombstone, last.horizon_ms)

    def _leftover(self, place: FilePlace, now_ms: int) -> Departure:
        file: SegmentFile | None = self._files.get(place.path)
        if place.state is FileState.DELETED and file is not None:
            if self._case.is_exempt:
                text = "The file left the log. logcleaner does not touch the partition; a starting broker removes it."
                return Departure(DepartureCode.DELETED_FILE, None, (Need.BROKER,), text)
            if file.name.base_offset in self._left.kept.copies:
                text = "The file left the log, and may be the only copy of records. A broker that starts removes it."
                return Departure(DepartureCode.DELETED_FILE, None, (Need.BROKER,), text)
            due_ms = self._left.due_ms(file)
            text = f"The file left the log. clean, the daemon or a starting broker removes it from {moment(due_ms)} on."
            return Departure(DepartureCode.DELETED_FILE, max(due_ms, now_ms), (), text)
        if place.state is not None and place.state is not FileState.DELETED:
            text = "An interrupted compaction left the file: clean, or a broker that starts, removes it."
            return Departure(DepartureCode.RECOVERY, now_ms, (), text)
        return Departure(
            DepartureCode.COPY, None, (Need.REMOVE,), "The file is not part of the log, and nothing removes it."
        )


def _rank(hits: KeyHits) -> tuple[bool, int]:
    """Return a sort key for the last record of a key: a record of an aborted transaction supersedes nothing, and comes
    first.
    """
    assert hits.last is not None
    return not hits.last.is_aborted, hits.last.offset


def _aborted_in(directory: Path) -> Sequence[AbortedTxn]:
    found: list[AbortedTxn] = []
    with suppress(UnreadableFile):  # beside a live broker it may be gone
        listing = list_partition(directory)
        for file in (*listing.in_state(FileState.PLAIN), *listing.in_state(FileState.SWAP)):
            if file.name.kind is FileKind.TXN_INDEX:
                with suppress(CorruptIndex, UnreadableFile):
                    found += parse_txn_index(read_file(file.path) or b"", file.path)
    return found
