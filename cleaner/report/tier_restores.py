"""The report of ``restore-tier``: text for people, and for machines, ``logcleaner.restore_tier/1``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.printable import printable
from cleaner.report.page import ATTENTION, Lines, Page
from cleaner.report.verify import tell_findings
from policies.as_of import CutReason
from policies.reasons import counted, moment, size

if TYPE_CHECKING:
    from cleaner.documents.changes import RestoreTierDocument
    from cleaner.engine.fetch import Fetched
    from cleaner.engine.restore_tier import CutLog, RestorePlan
    from cleaner.engine.verify.checked import Checked
    from storage.tiers.restored import RestoredPartition

SCHEMA: Final = "logcleaner.restore_tier/1"


@dataclass(frozen=True, slots=True)
class TierRestoreReport:
    """A plan, and what became of it; ``fetched`` and ``checked`` are None in a dry run."""

    plan: RestorePlan
    directory: str
    fetched: Fetched | None = None
    checked: Checked | None = None
    is_finished: bool = False
    remade: tuple[str, ...] = ()

    def document(self) -> RestoreTierDocument:
        """Return what ``restore-tier --json`` prints."""
        plan, fetched, checked = self.plan, self.fetched, self.checked
        return {
            "schema": SCHEMA,
            "tier": plan.tier,
            "directory": self.directory,
            "dry_run": fetched is None,
            "finished": self.is_finished,
            "unfinished": None if fetched is None or self.is_finished else fetched.unfinished,
            "partitions": [
                {
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "topic_id": one.partition.topic_id,
                    "start": one.start,
                    "end": one.end,
                    "remote_bytes": one.remote_bytes,
                    "local_start": one.local_start,
                    "missing": [{"start": span.start, "end": span.end} for span in one.missing],
                }
                for one in plan.partitions
            ],
            "as_they_are": list(plan.as_they_are),
            "left_out": list(plan.problems),
            "until_ms": plan.until_ms,
            "cut": [
                {
                    "topic": one.name.topic,
                    "partition": one.name.partition,
                    "end": one.end,
                    "log_end": one.log_end,
                    "reason": one.cut.reason.value,
                    "producer_id": one.cut.producer_id,
                    "has_older_behind": one.has_older_behind,
                }
                for one in plan.cut_logs
            ],
            "clamped": [
                {
                    "group": one.found.group,
                    "topic": one.found.topic_partition.topic,
                    "partition": one.found.topic_partition.partition,
                    "offset": one.found.offset,
                    "clamped_to": one.end,
                }
                for one in plan.clamped
            ],
            "files": fetched.files if fetched else 0,
            "bytes": fetched.size_bytes if fetched else 0,
            "resumed_bytes": fetched.resumed_bytes if fetched else 0,
            "remade": list(self.remade),
            "damaged": [
                {"path": self._moved(finding.path), "problem": finding.text}
                for finding in (checked.findings if checked else ())
            ],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield what each partition has and lacks, and what was made of it."""
        for one in self.plan.partitions:
            page.line(f"{printable(str(one.partition))}: {_told(one)}", hanging=2)
            for span in one.missing:
                which = (
                    f"offset {span.start}" if span.end == span.start + 1 else f"offsets {span.start} to {span.end - 1}"
                )
                page.line(f"  MISSING: {which}", ATTENTION)
        if self.plan.as_they_are:
            page.line(f"From log dirs, as they are: {counted(len(self.plan.as_they_are), 'partition')}")
        self._tell_cut(page)
        for clamp in self.plan.clamped:
            where = printable(str(clamp.found.topic_partition))
            words = f"group {printable(clamp.found.group)}: {where} clamped from {clamp.found.offset} to {clamp.end}"
            page.line(words, hanging=2)
        if renewed := len(self.plan.commits) - len(self.plan.clamped):
            page.line(f"{counted(renewed, 'committed offset')} of groups: the leader epochs of old go")
        if self.fetched is None:
            page.line(f"Dry run: nothing was written to {printable(self.directory)}.")
        elif self.checked is not None:
            self._tell_made(page, self.fetched, self.checked)
        yield page.text

    def _tell_cut(self, page: Page) -> None:
        if self.plan.until_ms is None:
            return
        page.line(f"As of {moment(self.plan.until_ms)}, left out:{'' if self.plan.cut_logs else ' nothing'}")
        for one in self.plan.cut_logs:
            page.line(f"  {printable(str(one.name))}: offsets {one.end} to {one.log_end - 1}: {_cause(one)}", hanging=4)
            if one.has_older_behind:
                page.line("    later segments have older records alone: the clock of a producer was ahead", ATTENTION)

    def _tell_made(self, page: Page, fetched: Fetched, checked: Checked) -> None:
        tell_findings(page, [finding._replace(path=self._moved(finding.path)) for finding in checked.findings])
        for name in self.remade:
            page.note(f"{printable(name)}: indexes and snapshots were derived anew")
        place = self.directory if self.is_finished else fetched.unfinished
        resumed = f"; {size(fetched.resumed_bytes)} of that by an earlier run" if fetched.resumed_files else ""
        page.line(
            f"{counted(fetched.files, 'file')}, {size(fetched.size_bytes)} in {printable(place)}{resumed}", hanging=2
        )
        page.line(
            f"Checked: {size(checked.size_bytes)} of batches in {counted(checked.segments, 'segment')}, their indexes "
            f"and snapshots: {'DAMAGED' if checked.is_damaged else 'nothing is damaged'}",
            hanging=2,
        )

    def _moved(self, path: str) -> str:
        """Return a path in the directory that has its name by now."""
        if self.fetched is None or not self.is_finished:
            return path
        return path.replace(self.fetched.unfinished, self.directory, 1)


def _cause(one: CutLog) -> str:
    if one.cut.reason is CutReason.TRANSACTION:
        return f"a transaction of producer {one.cut.producer_id} begins there, and was not whole everywhere by then"
    return "the first batch there has a newer record"


def _told(one: RestoredPartition) -> str:
    what = f"offsets {one.start} to {one.end - 1}" if one.end > one.start else "no record"
    if one.local_start is None or one.local_start >= one.end:
        return f"{what}, from the tier alone"
    return f"{what}, from {one.local_start} on of a log dir" if one.local_start > one.start else f"{what}, of a log dir"
