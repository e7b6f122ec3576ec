"""The beginning of a run that has every lock: recovery of what a crash left, with a journal line before each one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cleaner.engine.compactor import Compactor
from cleaner.engine.evidence import EvidenceNotes
from cleaner.engine.executor import Executor
from cleaner.engine.inventory import Survey
from cleaner.engine.journal import Journal, JournalFull
from cleaner.engine.leftovers import Swept, sweep_log_dir
from cleaner.engine.means import Means
from cleaner.errors import told
from policies.facts import LogDirFacts
from policies.guards import clock_guard
from policies.plan import LogDirPlan, Request
from policies.planning import log_dir_guards
from storage.errors import LogCleanerError
from storage.log.listing import list_partition
from storage.log.recovery import Recovery, plan_recovery, recover
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, TopicPartition


@dataclass(slots=True)
class Begun:
    """The result of recovery, and of the deletions that made space for it, once every lock is taken."""

    means: Means
    request: Request
    errors: list[str] = field(default_factory=list)
    swept: Swept = field(default_factory=Swept)
    full: dict[LogDir, str] = field(default_factory=dict)
    """Log dirs whose journal found no space -> the error. They stay as they are, unrecovered."""

    def sweep(self, plans: Iterable[LogDirPlan]) -> None:
        """Unlink the leftovers of log dirs that are due."""
        found = [sweep_log_dir(planned, self.request, self.means, self.errors) for planned in plans]
        self.swept = Swept.total([self.swept, *found])

    def executor(self, log_dir: LogDir, compactor: Compactor | None = None) -> Executor:
        """Return an executor that does nothing if the log dir is to stay as it is."""
        return Executor(log_dir, self.means, self.request, compactor, journal_full=self.full.get(log_dir))


def may_recover(facts: LogDirFacts, request: Request, journal: Journal, means: Means) -> bool:
    """Return whether no guard rail holds the log dir back.

    The question comes before the first journal entry of this run, which the clock would agree with. A clock that was
    confirmed gets such an entry.

    Args:
        facts: of the log dir, with what its guard rails go by.
        request: what was asked, and confirmed.
        journal: of the log dir.
        means: of the run.

    Raises: JournalFull.
    """
    if any(log_dir_guards(facts, request, means.broker)):
        return False
    if facts.clock and (guard := clock_guard(facts.clock, means.broker)):
        fields = {"what": "clock", "text": guard.text}
        if not journal.record(time_ms=means.clock.now_ms(), **fields):
            means.listener.event("journal_waits", log_dir=facts.path, **fields)
    return True


def recover_log_dir(log_dir: LogDir, survey: Survey, journal: Journal, means: Means) -> Iterator[str]:
    """Finish or undo what a crash interrupted, in the partitions that may be touched; gives what failed.

    What is the only copy of records, or tells of missing ones, is noted in the journal first: a broker that starts
    removes it.

    Raises: JournalFull.
    """
    needed: list[tuple[TopicPartition, Path, Recovery]] = []
    notes = EvidenceNotes(log_dir)
    try:
        cleaned = log_dir.offsets(CLEANER_OFFSET_CHECKPOINT)
        for topic_partition, path in log_dir.partitions():
            if not survey.wants(topic_partition) or survey.policy_of(topic_partition, cleaned).is_hands_off:
                continue
            try:
                listing = list_partition(path)
                recovery = plan_recovery(listing)
            except LogCleanerError:
                continue  # the inventory meets it again, and tells
            notes.look(topic_partition, listing, recovery)
            if recovery.is_needed:
                needed.append((topic_partition, path, recovery))
        notes.write(journal, means)
        for topic_partition, path, recovery in needed:
            try:
                _recover_partition(topic_partition, path, recovery, journal, means)
            except JournalFull:
                raise
            except (LogCleanerError, OSError) as error:
                yield told(error)
    except JournalFull:
        raise
    except LogCleanerError:
        pass  # the inventory meets a garbled checkpoint again, and tells


def _recover_partition(
    topic_partition: TopicPartition, path: Path, recovery: Recovery, journal: Journal, means: Means
) -> None:
    names, place = recovery.names, topic_partition._asdict()
    if not journal.record("recover", means.clock.now_ms(), partition=str(topic_partition), files=names):
        means.listener.event("journal_waits", **place, what="recover", files=names)
    recover(means.fs, recovery, path)
    means.listener.event("partition_recovered", **place, files=len(names))
