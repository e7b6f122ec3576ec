"""Findings of what is wrong with one file of a segment: its anomalies, judged by where the file stands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from policies.findings.facts import Standing
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.of_tails import tail_finding
from policies.findings.remedies import BY_ITSELF, FETCH_AGAIN, REBUILD, SPLIT_BY_ITSELF, TIME_INDEX_PADDED
from storage.anomalies import Anomaly, SeenAnomaly
from storage.names import FileKind


class _Rule(NamedTuple):
    code: FindingCode
    harm: Harm
    so: str
    """The consequence, which the sentence tells behind the observation."""
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
    Anomaly.OVERFLOW: _Rule(FindingCode.OFFSET_OVERFLOW, Harm.SLOW_START, "no index can hold it", "KAFKA-6264"),
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
    Anomaly.TIMES_ZERO: _Rule(FindingCode.TIME_INDEX_PADDED, Harm.DATA_LOST, TIME_INDEX_PADDED, "KAFKA-10207"),
    Anomaly.TIMES_CUT: _Rule(FindingCode.TIME_INDEX_CORRUPT, Harm.WRONG_ANSWER, "Kafka takes the index for corrupt"),
    Anomaly.TXN_FORMAT: _Rule(
        FindingCode.TXN_INDEX_CORRUPT, Harm.WRONG_ANSWER, "aborted records may be read as committed", "KAFKA-13727"
    ),
}
_OF_AN_END: Final = frozenset({Anomaly.TAIL, Anomaly.ZERO_TAIL})
_OF_AN_OPEN_INDEX: Final = frozenset({Anomaly.ENTRIES_ZERO, Anomaly.TIMES_ZERO, Anomaly.TIME_END})
"""How the index files of an active segment look while a broker runs, and where one was killed: they are allocated
ahead, and the last entry of the time index comes when the segment is closed."""


def file_findings(seen: Iterable[SeenAnomaly], standing: Standing, counted: int | None = None) -> list[Finding]:
    """Return the findings of the files of one segment; anomalies that are healthy where they stand are left out.

    Args:
        seen: what was seen.
        standing: of the segment.
        counted: the offset that a start behind a clean stop takes for the end of the log; None if it takes none.
    """
    return [found for one in seen if (found := _finding(one, standing, counted)) is not None]


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
        found.append(Finding(FindingCode.INDEX_MISSING, harm, path, text, REBUILD, repair=RepairGroup.DERIVED))
    return found


def _is_healthy(anomaly: Anomaly, standing: Standing) -> bool:
    return standing.is_last and anomaly in _OF_AN_OPEN_INDEX and (standing.is_live or standing.is_recovered)


def _finding(seen: SeenAnomaly, standing: Standing, counted: int | None) -> Finding | None:
    what = f"{seen.text[0].upper()}{seen.text[1:]}"
    if seen.anomaly in _OF_AN_END:
        is_zero = seen.anomaly is Anomaly.ZERO_TAIL
        return tail_finding(standing, what, seen.position, seen.offset, is_zero=is_zero, counted=counted)
    if _is_healthy(seen.anomaly, standing):
        return None
    rule = _RULES[seen.anomaly]
    text, kafka_issue = f"{what}: {rule.so}.", rule.kafka_issue
    harm, remedy = rule.harm, REBUILD
    repair: RepairGroup | None = RepairGroup.DERIVED
    if seen.kind is FileKind.LOG:
        remedy, repair = FETCH_AGAIN, None
        if seen.anomaly is Anomaly.OVERFLOW:
            remedy = SPLIT_BY_ITSELF
    elif standing.is_recovered and harm < Harm.SLOW_START:
        harm, remedy = Harm.SLOW_START, BY_ITSELF
    if rule.code is FindingCode.TIME_INDEX_PADDED and standing.is_last:
        kafka_issue = "KAFKA-19200"
    path = standing.path_of(seen.kind)
    return Finding(rule.code, harm, path, text, remedy, seen.position, seen.offset, kafka_issue, repair)
