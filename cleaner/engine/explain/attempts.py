"""Read from the journal since when the compactions of a partition fail, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cleaner.engine.journal import read_journal
from cleaner.engine.uncleanable import uncleanable_in
from policies.explain.observations import FailedAttempts
from policies.facts import PartitionFacts
from policies.plan import path_of
from storage.log.listing import list_partition


def failed_attempts(facts: PartitionFacts) -> FailedAttempts | None:
    """Return the failures since the last success; None if the last attempt did not fail.

    Raises: UnreadableFile.
    """
    name = str(facts.topic_partition)
    entries = [entry for entry in read_journal(Path(facts.log_dir)) if entry.get("partition") == name]
    failing = failing_since(entries)
    noted = uncleanable_in(entries).get(name)
    if failing is None or noted is None:
        return None
    changed = noted.may_retry(list_partition(Path(path_of(facts))))
    return FailedAttempts(*failing, noted.cause, changed)


def failing_since(entries: Iterable[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Return the times of the first and of the last failure in a row, epoch ms; None if the last attempt went well.

    A ``compact`` line tells that an attempt begins. One that no ``failed`` line follows went well.

    Args:
        entries: of one partition, oldest first.
    """
    since_ms = last_ms = None
    is_begun = False
    for entry in entries:
        match entry:
            case {"what": "compact"}:
                since_ms = None if is_begun else since_ms
                is_begun = True
            case {"what": "failed", "time_ms": int(time_ms)}:
                since_ms, last_ms, is_begun = since_ms or time_ms, time_ms, False
    return None if since_ms is None or last_ms is None or is_begun else (since_ms, last_ms)
