"""Findings about bytes behind the last whole batch of a ``.log``, by the place of the segment and how the broker
stopped.

A start behind a clean stop looks for no end. It fails at zeros, which read as a record of size 0; bytes of another kind
it takes for the end of the log, and appends behind them. Recovery cuts either off, and deletes all later segments.

Source: Kafka LogLoader.recoverLog, LogSegment.recover, FileRecords; the starts in ``tests/interop/test_doctor.py``.
"""

from __future__ import annotations

from typing import Final

from policies.findings.facts import Standing
from policies.findings.findings import Finding, FindingCode, Harm, RepairGroup
from policies.findings.remedies import FETCH_AGAIN, REBUILD
from storage.names import FileKind

_CUT_ZEROS: Final = f"Stop the broker, and run logcleaner verify --repair={RepairGroup.ZERO_TAIL}: it cuts them off."
_CUT_BY_ITSELF: Final = "Nothing: the next start of the broker cuts them off. To look at them before, copy the file."
_LEAVE_THE_MARKER: Final = (
    "Leave .kafka_cleanshutdown: if one log dir lacks it, the start recovers every log there, and cuts each one at its"
    " first damage. It also knows no broker epoch then: with eligible leader replicas the controller takes the stop for"
    " an unclean one, and may drop the broker from ISR and ELR of all its partitions."
)
RECOVER_TAIL: Final = (
    f"Keep the broker stopped, and run logcleaner verify --repair={RepairGroup.LOG_END}: it recovers this log alone, as"
    " a broker would, up to its last whole batch, and keeps a copy of what it cuts. What is gone already comes from"
    " elsewhere: let a replica that has it lead before clients write; without one, a backup is all there is."
    f" {_LEAVE_THE_MARKER}"
)
"""The one remedy for a log whose end a start behind a clean stop would not find, in every command and finding."""
_ZERO_ISSUE: Final = "KAFKA-21000"


def tail_finding(
    standing: Standing,
    what: str,
    position: int | None,
    offset: int | None,
    *,
    is_zero: bool,
    counted: int | None = None,
) -> Finding | None:
    """Return the finding of the bytes behind the last batch; None where a broker is writing them.

    Args:
        standing: of the segment.
        what: what is seen there, without a full stop.
        position: byte in the file.
        offset: the one behind the last batch, if it is known.
        is_zero: whether all of them are zeros.
        counted: the offset that a start behind a clean stop takes for the end of the log; None if it takes none.
    """
    if standing.is_live and standing.is_last:
        return None
    code, issue, repair = FindingCode.TORN_TAIL, None, None
    if is_zero:
        code, issue, repair = FindingCode.ZERO_TAIL, _ZERO_ISSUE, RepairGroup.ZERO_TAIL
    if not standing.is_last:
        harm, so, remedy = _of_a_sealed(standing, is_zero=is_zero)
    elif standing.is_recovered:
        so = "The next start of the broker recovers the log: it finds the end, and cuts them off."
        harm, remedy = Harm.SLOW_START, _CUT_BY_ITSELF
    elif is_zero:
        so = "The stop was clean, so the next start does not look for the end: it meets a record of size 0, and fails."
        harm, remedy = Harm.NO_START, f"{_CUT_ZEROS} {_LEAVE_THE_MARKER}"
    else:
        harm, so, remedy, repair = Harm.DATA_LOST, _not_found(offset, counted), RECOVER_TAIL, RepairGroup.LOG_END
    path = standing.path_of(FileKind.LOG)
    return Finding(code, harm, path, f"{what}. {so}", remedy, position, offset, issue, repair)


def early_end_finding(standing: Standing, counted: int, offset: int, *, is_lost: bool) -> Finding:
    """Return the finding of whole batches at the end of a log that a start behind a clean stop does not count.

    Args:
        standing: of the last segment.
        counted: the offset that the start takes for the end of the log.
        offset: the one behind the last whole batch.
        is_lost: whether something says that there were records behind it. The offset index is evidence then; else it
            is wrong by itself, and can be made anew.
    """
    text = (
        f"The stop was clean, so the next start does not look for the end: {_early(counted, offset)} The broker serves"
        " the log, and consumers find two records of one offset."
    )
    harm = Harm.DATA_LOST
    if not is_lost:
        path, code = standing.path_of(FileKind.INDEX), FindingCode.OFFSET_INDEX_WRONG
        return Finding(code, harm, path, text, REBUILD, None, offset, None, RepairGroup.DERIVED)
    path, code = standing.path_of(FileKind.LOG), FindingCode.TORN_TAIL
    return Finding(code, harm, path, text, RECOVER_TAIL, None, offset, None, RepairGroup.LOG_END)


def _early(counted: int, offset: int) -> str:
    return (
        f"the offset index leads behind the last whole batch, so it takes offset {counted} for the end, and gives the"
        f" offsets {counted} to {offset - 1}, which whole batches have, to new records."
    )


def _not_found(offset: int | None, counted: int | None) -> str:
    """Return what a start does that does not look for the end."""
    so = "The stop was clean, so the next start does not look for the end"
    if counted is None:
        so += "."
    elif offset is not None and counted < offset:
        so += f": {_early(counted, offset)}"
    else:
        so += f": it takes offset {counted} for it."
    return so + (
        " The broker serves the log, and puts what producers send behind these bytes, where no consumer and no replica"
        " ever gets to."
    )


def _of_a_sealed(standing: Standing, *, is_zero: bool) -> tuple[Harm, str, str]:
    if standing.is_recovered:
        so = "The next start recovers the log: it cuts it there, and deletes all later segments."
        return Harm.DATA_LOST, so, _CUT_ZEROS if is_zero else FETCH_AGAIN
    if is_zero:
        return Harm.WRONG_ANSWER, "Consumers fail there, and get no further.", _CUT_ZEROS
    return Harm.DATA_LOST, "Consumers fail there, and records that were there may be lost.", FETCH_AGAIN
