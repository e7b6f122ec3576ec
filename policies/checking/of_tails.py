"""Findings of what lies behind the last whole batch of a ``.log``, by where it stands and how a broker stopped.

A start behind a clean stop looks for no end. It fails at zeros, which read as a record of size 0; bytes of another kind
it takes for the end of the log, and appends behind them. Recovery cuts either off, and deletes all later segments.

Source: Kafka LogLoader.recoverLog, LogSegment.recover, FileRecords; the starts in ``tests/interop/test_doctor.py``.
"""

from __future__ import annotations

from typing import Final

from policies.checking.facts import Standing
from policies.checking.findings import Finding, FindingCode, Harm, RepairGroup
from policies.checking.remedies import FETCH_AGAIN
from storage.names import FileKind

_CUT_ZEROS: Final = f"Stop the broker, and run logcleaner verify --repair={RepairGroup.ZERO_TAIL}: it cuts them off."
_CUT_BY_ITSELF: Final = "Nothing: the next start of the broker cuts them off. To look at them before, copy the file."
_RECOVERS_ALL: Final = (
    "without .kafka_cleanshutdown the next start recovers every log of the log dir, and cuts each one at its first"
    " damage."
)
RECOVER_TAIL: Final = (
    "Keep the broker stopped. If logcleaner verify finds no other damage in the log dir, remove .kafka_cleanshutdown,"
    f" and the start cuts these bytes off: {_RECOVERS_ALL}"
)
_ZERO_ISSUE: Final = "KAFKA-21000"


def tail_finding(
    standing: Standing, what: str, position: int | None, offset: int | None, *, is_zero: bool
) -> Finding | None:
    """Return the finding of the bytes behind the last batch; None where a broker is writing them.

    Args:
        standing: of the segment.
        what: what is seen there, without a full stop.
        position: byte in the file.
        offset: the one behind the last batch, if it is known.
        is_zero: whether all of them are zeros.
    """
    if standing.is_live and standing.is_last:
        return None
    harm, so, remedy = (_of_the_last if standing.is_last else _of_a_sealed)(standing, is_zero=is_zero)
    code, issue, repair = FindingCode.TORN_TAIL, None, None
    if is_zero:
        code, issue, repair = FindingCode.ZERO_TAIL, _ZERO_ISSUE, RepairGroup.ZERO_TAIL
    path = standing.path_of(FileKind.LOG)
    return Finding(code, harm, path, f"{what}. {so}", remedy, position, offset, issue, repair)


def _of_the_last(standing: Standing, *, is_zero: bool) -> tuple[Harm, str, str]:
    if standing.is_recovered:
        so = "The stop was not clean, so the next start of the broker finds the end, and cuts them off."
        return Harm.SLOW_START, so, _CUT_BY_ITSELF
    so = "The stop was clean, so the next start does not look for the end"
    if is_zero:
        remedy = f"{_CUT_ZEROS} Leave .kafka_cleanshutdown: {_RECOVERS_ALL}"
        return Harm.NO_START, f"{so}: it meets a record of size 0, and fails.", remedy
    so += (
        ": the broker serves the log, and puts what producers send behind these bytes, where no consumer and no replica"
        " ever gets to."
    )
    return Harm.DATA_LOST, so, RECOVER_TAIL


def _of_a_sealed(standing: Standing, *, is_zero: bool) -> tuple[Harm, str, str]:
    if standing.is_recovered:
        so = "The stop was not clean, so the next start cuts the log there, and deletes all later segments."
        return Harm.DATA_LOST, so, _CUT_ZEROS if is_zero else FETCH_AGAIN
    if is_zero:
        return Harm.WRONG_ANSWER, "Consumers fail there, and get no further.", _CUT_ZEROS
    return Harm.DATA_LOST, "Consumers fail there, and records that were there may be lost.", FETCH_AGAIN
