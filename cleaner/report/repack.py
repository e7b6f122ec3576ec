"""The report of ``clean --repack``: the run's own report, then the bytes that larger batches save, by topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.repack.repacking import RepackedPartition, Repacking
from cleaner.report.cleaning import CleaningReport
from cleaner.report.page import ATTENTION, Page
from policies.reasons import counted, moment, size

if TYPE_CHECKING:
    from cleaner.documents.plan import RepackDocument, RepackPartition
    from cleaner.report.page import Lines

_NAMES_MAX: Final = 3
_NONE: Final = Repacking(())


@dataclass(frozen=True, slots=True)
class RepackReport(CleaningReport):
    """A plan and its outcome, and the repacking behind it."""

    repacking: Repacking = _NONE

    def document(self) -> dict[str, Any]:
        """Return what ``clean --json`` prints, and under ``repack`` what was repacked."""
        return {**super(RepackReport, self).document(), "repack": _document(self.repacking)}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the run's own report, then a line for each topic, and the partitions where nothing was repacked."""
        yield from super(RepackReport, self).text(page.draft())
        fill(page, self.repacking)
        yield page.text


def fill(page: Page, repacking: Repacking) -> None:
    """Fill a page with the bytes of each topic before and after, and the reasons against it."""
    partitions = repacking.partitions
    told = sorted((one for one in partitions if not one.refused), key=lambda one: one.topic_partition)
    page.line()
    for topic, some in groupby(told, key=lambda one: one.topic_partition.topic):
        page.line(_told(f"{topic}: ", list(some), is_done=repacking.is_done), hanging=2)
    if told:
        page.line(_told("repacked: " if repacking.is_done else "REPACK WOULD: ", told, is_done=repacking.is_done))
    for code, text in dict.fromkeys((one.refused.code, one.refused.text) for one in partitions if one.refused):
        names = [str(one.topic_partition) for one in partitions if one.refused == (code, text)]
        more = f" and {len(names) - _NAMES_MAX:,} more" if len(names) > _NAMES_MAX else ""
        page.line(f"not repacked: {', '.join(names[:_NAMES_MAX])}{more}: {code}: {text}", ATTENTION, hanging=2)
    waits = [one.until_ms for one in partitions if one.until_ms is not None]
    if waits:
        page.line(f"the replaced files wait as .deleted until {moment(max(waits))}: until then they take space, too")
    if any(one.is_estimate for one in told):
        page.line(
            "a compaction comes first, so these figures of the log as it lies there are a guess: clean, then ask again"
        )


def _told(name: str, partitions: Sequence[RepackedPartition], *, is_done: bool) -> str:
    before, after = sum(one.bytes_before for one in partitions), sum(one.bytes_after for one in partitions)
    merged = [segment.merged for one in partitions for segment in one.segments]
    if not merged:
        return f"{name}{size(before)}, nothing to repack"
    share = f"{100 * (before - after) / before:.1f} % less" if after <= before else f"{size(after - before)} more"
    batches = f"{sum(m.batches for m in merged):,} batches -> {sum(m.merged for m in merged):,}"
    where = counted(len(merged), "segment")
    return f"{name}{size(before)} {'->' if is_done else 'would become'} {size(after)} ({share}), {batches}, in {where}"


def _document(repacking: Repacking) -> RepackDocument:
    return {
        "done": repacking.is_done,
        "bytes_before": sum(one.bytes_before for one in repacking.partitions),
        "bytes_after": sum(one.bytes_after for one in repacking.partitions),
        "errors": list(repacking.errors),
        "partitions": [_partition(one) for one in repacking.partitions],
    }


def _partition(one: RepackedPartition) -> RepackPartition:
    refused = one.refused
    return {
        "topic": one.topic_partition.topic,
        "partition": one.topic_partition.partition,
        "log_dir": one.log_dir,
        "basis": "estimate" if one.is_estimate else "exact",
        "refused": {"code": refused.code.value, "text": refused.text} if refused else None,
        "error": one.error,
        "bytes_before": one.bytes_before,
        "bytes_after": one.bytes_after,
        "until_ms": one.until_ms,
        "segments": [
            {
                "base_offset": segment.base_offset,
                "bytes": segment.size_before,
                "bytes_after": segment.merged.size_bytes,
                "batches": segment.merged.batches,
                "batches_after": segment.merged.merged,
            }
            for segment in one.segments
        ],
    }
