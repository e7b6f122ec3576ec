"""Findings of what is wrong with one file of a segment: its anomalies, judged by where the file stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from policies.checking.findings import Finding, FindingCode, Harm
from storage.anomalies import Anomaly, SeenAnomaly
from storage.names import FileKind, segment_file_name

DERIVED: Final = "derived"
"""The KIND of ``verify --repair=KIND``, and that of a bare ``--repair``: what can be derived from the log again."""
ZERO_TAIL: Final = "zero-tail"
FETCH_AGAIN: Final = (
    "Copy the directory to a safe place; then let the broker fetch the partition from another replica, or restore it"
    " from a backup."
)
REBUILD: Final = "Stop the broker, and run logcleaner verify --repair: it builds the file anew from the log."
_CUT_ZEROS: Final = f"Stop the broker, and run logcleaner verify --repair={ZERO_TAIL}: it cuts them off."
BY_ITSELF: Final = "Nothing: the next start of the broker builds the file anew, since the broker did not stop cleanly."


class Standing(NamedTuple):
    """The place of a segment in its log, and the state of its broker."""

    directory: str
    base_offset: int
    is_last: bool
    """Whether it is the active segment."""
    is_live: bool
    """Whether a broker, or another process, holds the lock of the log dir."""
    is_recovered: bool
    """Whether the next start of the broker recovers the segment: it did not stop cleanly."""

    @property
    def is_clean(self) -> bool:
        """Return whether the broker stopped cleanly, and wrote all that it knew."""
        return not (self.is_live or self.is_recovered)

    def path_of(self, kind: FileKind) -> str:
        """Return the path of one of its files."""
        return f"{self.directory}/{segment_file_name(self.base_offset, kind)}"


class _Rule(NamedTuple):
    code: FindingCode
    harm: Harm
    so: str
    """What follows from it, behind what is seen."""
    kafka_issue: str | None = None


_LOOKUP: Final = "a reader that begins there may miss records"
_RETENTION: Final = "retention by time may delete the segment too early"
_RULES: Final = {
    Anomaly.CRC: _Rule(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.UNREADABLE: _Rule(FindingCode.BATCH_CORRUPT, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.HEADER: _Rule(FindingCode.BATCH_HEADER, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.RECORDS: _Rule(FindingCode.RECORDS_CORRUPT, Harm.DATA_LOST, "a consumer fails there"),
    Anomaly.OFFSET_BACK: _Rule(
        FindingCode.OFFSET_BACKWARDS, Harm.WRONG_ANSWER, "consumers skip records, or get some under a wrong offset"
    ),
    Anomaly.BELOW_BASE: _Rule(
        FindingCode.OFFSET_BACKWARDS, Harm.WRONG_ANSWER, "the next recovery of the segment cuts it to nothing"
    ),
    Anomaly.BEYOND_NEXT: _Rule(
        FindingCode.OFFSET_BACKWARDS, Harm.WRONG_ANSWER, "consumers get records twice, or skip some"
    ),
    Anomaly.OVERFLOW: _Rule(
        FindingCode.OFFSET_OVERFLOW, Harm.SLOW_START, "the next start of the broker splits the segment"
    ),
    Anomaly.TAIL: _Rule(FindingCode.TORN_TAIL, Harm.DATA_LOST, "records that were there may be lost"),
    Anomaly.ZERO_TAIL: _Rule(FindingCode.ZERO_TAIL, Harm.DATA_LOST, "a consumer fails there", "KAFKA-21000"),
    Anomaly.ENTRY_CUT: _Rule(FindingCode.OFFSET_INDEX_CORRUPT, Harm.WRONG_ANSWER, "Kafka takes the index for corrupt"),
    Anomaly.ENTRY_ORDER: _Rule(FindingCode.OFFSET_INDEX_CORRUPT, Harm.WRONG_ANSWER, _LOOKUP),
    Anomaly.ENTRY_BEYOND: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, "the log end is taken for another"),
    Anomaly.ENTRY_ASTRAY: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, "a reader that begins there fails"),
    Anomaly.ENTRY_SKIPS: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, _LOOKUP),
    Anomaly.ENTRY_OFFSET: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WRONG_ANSWER, "no batch ends at that offset"),
    Anomaly.ENTRIES_ZERO: _Rule(
        FindingCode.OFFSET_INDEX_CORRUPT, Harm.WRONG_ANSWER, "the broker takes the zeros for entries"
    ),
    Anomaly.ENTRIES_FEW: _Rule(FindingCode.OFFSET_INDEX_WRONG, Harm.WASTE, "each look-up there reads much of the log"),
    Anomaly.TIME_ORDER: _Rule(FindingCode.TIME_INDEX_CORRUPT, Harm.WRONG_ANSWER, "a look-up by time may miss records"),
    Anomaly.TIME_BEYOND: _Rule(FindingCode.TIME_INDEX_WRONG, Harm.WRONG_ANSWER, "a look-up by time may miss records"),
    Anomaly.TIME_SKIPS: _Rule(FindingCode.TIME_INDEX_WRONG, Harm.WRONG_ANSWER, "a look-up by time may miss records"),
    Anomaly.TIME_UNKNOWN: _Rule(
        FindingCode.TIME_INDEX_WRONG, Harm.WRONG_ANSWER, "a look-up by time, and retention, may go wrong"
    ),
    Anomaly.TIME_END: _Rule(FindingCode.TIME_INDEX_WRONG, Harm.DATA_LOST, _RETENTION),
    Anomaly.TIMES_ZERO: _Rule(FindingCode.TIME_INDEX_CORRUPT, Harm.DATA_LOST, _RETENTION, "KAFKA-19200"),
    Anomaly.TIMES_CUT: _Rule(FindingCode.TIME_INDEX_CORRUPT, Harm.WRONG_ANSWER, "Kafka takes the index for corrupt"),
    Anomaly.TXN_FORMAT: _Rule(
        FindingCode.TXN_INDEX_CORRUPT, Harm.WRONG_ANSWER, "aborted records may be read as committed", "KAFKA-13727"
    ),
}
_OF_AN_END: Final = frozenset({Anomaly.TAIL, Anomaly.ZERO_TAIL})
_OF_AN_OPEN_INDEX: Final = frozenset({Anomaly.ENTRIES_ZERO, Anomaly.TIMES_ZERO, Anomaly.TIME_END})
"""How the index files of an active segment look while a broker runs, and where one was killed: they are allocated
ahead, and the last entry of the time index comes when the segment is closed."""


def file_findings(seen: Iterable[SeenAnomaly], standing: Standing) -> list[Finding]:
    """Return the findings of the files of one segment; anomalies that are healthy where they stand are left out."""
    return [_finding(one, standing) for one in seen if not _is_healthy(one.anomaly, standing)]


def missing_findings(missing: Iterable[FileKind], size_bytes: int, standing: Standing) -> list[Finding]:
    """Return the findings of index files that are not there. A broker makes those of an empty segment when it must.

    Args:
        missing: their kinds.
        size_bytes: of the ``.log``.
        standing: of the segment.
    """
    if not size_bytes or (standing.is_last and standing.is_live):
        return []
    found = []
    for kind in missing:
        is_rebuilt = kind is FileKind.INDEX or standing.is_recovered
        so = "the next start of the broker builds it anew" if is_rebuilt else "the broker goes on with an empty one"
        harm = Harm.SLOW_START if is_rebuilt else Harm.WRONG_ANSWER
        text = f"The file is missing: {so}."
        path = standing.path_of(kind)
        found.append(Finding(FindingCode.INDEX_MISSING, harm, path, text, REBUILD, repair=DERIVED))
    return found


def _is_healthy(anomaly: Anomaly, standing: Standing) -> bool:
    if not standing.is_last:
        return False
    if anomaly in _OF_AN_END:
        return standing.is_live
    return anomaly in _OF_AN_OPEN_INDEX and (standing.is_live or standing.is_recovered)


def _finding(seen: SeenAnomaly, standing: Standing) -> Finding:
    rule = _RULES[seen.anomaly]
    text = f"{seen.text[0].upper()}{seen.text[1:]}: {rule.so}."
    harm, remedy = rule.harm, REBUILD
    repair: str | None = DERIVED
    if seen.kind is FileKind.LOG:
        remedy, repair = FETCH_AGAIN, None
        if seen.anomaly in _OF_AN_END and standing.is_last and standing.is_recovered:
            harm, remedy = Harm.SLOW_START, "Nothing: the next start of the broker cuts them off, as after each crash."
        if seen.anomaly is Anomaly.OVERFLOW:
            remedy = "Nothing: the broker does it by itself. Leave it the time."
        if seen.anomaly is Anomaly.ZERO_TAIL:
            remedy, repair = _CUT_ZEROS, ZERO_TAIL
    elif standing.is_recovered and harm < Harm.SLOW_START:
        harm, remedy = Harm.SLOW_START, BY_ITSELF
    path = standing.path_of(seen.kind)
    return Finding(rule.code, harm, path, text, remedy, seen.position, seen.offset, rule.kafka_issue, repair)
