"""Search all files of some log dirs, and tell when each file that holds a key is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from cleaner.engine.prove_erased.departing import Departing, Departures
from cleaner.engine.prove_erased.matching import KeyMatcher
from cleaner.engine.prove_erased.places import FileContent, FileHome, FilePlace, Wants, places_in
from cleaner.engine.prove_erased.searching import FileEvidence, search
from cleaner.engine.prove_erased.wanted import KeyEncoding, WantedKey
from policies.config.config_layers import ConfigLayers
from policies.plan import PartitionPlan, Plan, Request
from policies.prove_erased.departures import Need
from storage.errors import CorruptIndex, UnreadableFile
from storage.log.listing import list_partition
from storage.log_dir import LogDir, read_file
from storage.names import FileKind, FileState
from storage.txn_index import AbortedTxn, parse_txn_index

_NO_PARTITION: Final = "."
_LOOKS_MAX: Final = 8
"""The most times that the log dirs are listed: a broker at work makes new files while others are searched."""


@dataclass(frozen=True, slots=True)
class KeySearch:
    """The keys, and where they are looked for."""

    keys: tuple[WantedKey, ...]
    encoding: KeyEncoding
    log_dirs: tuple[Path, ...]
    globs: tuple[str, ...] = ()
    """Over topics or partitions; empty means all files."""


@dataclass(frozen=True, slots=True)
class ErasureProof:
    """The files that were searched, and when each that holds a key is gone."""

    now_ms: int
    question: KeySearch
    evidences: tuple[FileEvidence, ...]
    departures: Departures
    locked_by: tuple[str, ...] = ()
    """The holders of log dirs: what they write meanwhile is not searched."""
    is_settled: bool = True
    """False if new files kept appearing until the end of the search."""
    remote_topics: tuple[str, ...] = ()
    """Topics with remote storage: segments of them lie elsewhere, too."""

    @property
    def holding(self) -> tuple[FileEvidence, ...]:
        """The files that hold a key."""
        return tuple(evidence for evidence in self.evidences if evidence.hits)

    @property
    def undecoded(self) -> tuple[FileEvidence, ...]:
        """The files of which a part could not be decoded."""
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
        """The moment by which every file here is gone, or no longer holds a key; None if one has no moment."""
        moments_ms = [one.at_ms for one in self.departures.values()]
        known_ms = [at_ms for at_ms in moments_ms if at_ms is not None]
        return max(known_ms, default=None) if len(known_ms) == len(moments_ms) else None

    @property
    def needs(self) -> tuple[Need, ...]:
        """The events that this takes beside the passing of time."""
        return tuple(need for need in Need if any(need in one.needs for one in self.departures.values()))


class HolderPlans(NamedTuple):
    """The means to plan."""

    plan: Callable[[Request], Plan]
    layers: ConfigLayers


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
        advance: hears the number of bytes searched since the last call.

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
            found[place.path, place.inode] = search(place, matcher, aborted.directory(place.path.parent))
            advance(place.size_bytes if place.content is FileContent.RECORDS else 0)
    evidences = (evidence for evidence in found.values() if evidence is not None)
    is_settled = all(key in found for key in list_places(question.log_dirs, wants))
    return tuple(sorted(evidences, key=lambda one: one.place.path)), is_settled


def prove(
    now_ms: int,
    question: KeySearch,
    wants: Wants | None,
    survey: HolderPlans,
    advance: Callable[[int], None] = lambda _: None,
) -> ErasureProof:
    """Search every file, and tell when each one that holds a key is gone.

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


def _names(holding: Iterable[FileEvidence]) -> tuple[str, ...]:
    """Return the partitions whose logs or leftovers hold a key; if no partition does, a name that no partition has."""
    live = {
        str(evidence.place.topic_partition) for evidence in holding if evidence.place.home is FileHome.LIVE
    }  # fmt: skip
    return tuple(sorted(live)) or (_NO_PARTITION,)


class AbortedIn:
    """The transaction indexes of directories, each read once."""

    def __init__(self) -> None:
        self._known: dict[Path, Sequence[AbortedTxn]] = {}

    def directory(self, directory: Path) -> Sequence[AbortedTxn]:
        """Return the aborted transactions of a partition directory; what cannot be read names none."""
        if directory not in self._known:
            self._known[directory] = list(dict.fromkeys(_aborted_in(directory)))
        return self._known[directory]


def _aborted_in(directory: Path) -> Sequence[AbortedTxn]:
    found: list[AbortedTxn] = []
    with suppress(UnreadableFile):  # beside a live broker it may be gone
        listing = list_partition(directory)
        for file in (*listing.in_state(FileState.PLAIN), *listing.in_state(FileState.SWAP)):
            if file.name.kind is FileKind.TXN_INDEX:
                with suppress(CorruptIndex, UnreadableFile):
                    found += parse_txn_index(read_file(file.path) or b"", file.path)
    return found
