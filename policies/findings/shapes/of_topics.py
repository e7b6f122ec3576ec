"""Tell which directories do not belong to the topic that their name says, or to any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from policies.explain.words import counted, size
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.of_log_dir import set_aside_finding, strange_directory_finding, topic_id_finding
from policies.findings.remedies import UNOWNED
from policies.findings.shapes.symptoms import EntryKind, EntrySymptoms, LogDirSymptoms, PartitionSymptoms
from policies.reasons import duration
from storage.names import TopicPartition

SETTLED_MS: Final = 60_000
"""Beside a live broker a directory is judged only if its names are older: a topic may just be made, or deleted."""


def identity_findings(seen: PartitionSymptoms) -> Iterator[Finding]:
    """Yield that the topic id is missing or another topic's, or that the cluster has no such topic."""
    own, known, is_cluster_known = seen.identity
    if not is_cluster_known or (seen.is_live and seen.age_ms < SETTLED_MS):
        return
    if known is None:
        text = (
            f"The cluster metadata has no topic {seen.topic_partition.topic}: the topic was deleted while this broker "
            f"was away, or the directory is a copy from elsewhere. The next start sets it aside as -stray."
        )
        yield Finding(FindingCode.DIRECTORY_UNOWNED, Harm.NOTE, seen.path, text, UNOWNED, kafka_issue="KAFKA-15605")
    elif own != known and not (own is None and seen.error):
        yield topic_id_finding(seen.path, own, known, "the cluster metadata has")


def twice(log_dirs: Iterable[LogDirSymptoms]) -> Iterator[Finding]:
    """Yield the partitions that lie in two log dirs under their plain name."""
    found: defaultdict[TopicPartition, list[str]] = defaultdict(list)
    for log_dir in log_dirs:
        for partition in log_dir.partitions:
            found[partition.topic_partition].append(partition.path)
    for topic_partition, paths in found.items():
        if len(paths) > 1:
            text = f"{topic_partition} lies in {counted(len(paths), 'log dir')}: a broker refuses to start. The other: "
            text += ", ".join(paths[1:])
            remedy = "Find out which one is newer (logcleaner topics), and move the other one out of the log dir."
            yield Finding(FindingCode.PARTITION_TWICE, Harm.NO_START, paths[0], f"{text}.", remedy)


def entry_findings(entries: Iterable[EntrySymptoms], *, is_live: bool) -> Iterator[Finding]:
    """Yield what the directories are that are no live partition."""
    for entry in entries:
        held = size(entry.size_bytes)
        if entry.sole_copy is not None and not is_live:  # a broker knows more than what it wrote so far
            yield set_aside_finding(entry.path, entry.sole_copy)
            continue
        match entry.kind:
            case EntryKind.STRAY:
                text = f"The broker set this replica aside ({held}){_since(entry)}, and never deletes it."
                remedy = "If nobody misses its records, doctor --sweep NAME takes it, with its delay; else keep it."
                yield Finding(
                    FindingCode.STRAY_DIRECTORY, Harm.WASTE, entry.path, text, remedy, None, None, "KAFKA-15605"
                )
            case EntryKind.DELETE if not is_live or entry.age_ms > entry.delay_ms + SETTLED_MS:
                text = f"The topic was deleted{_since(entry)}, and its directory ({held}) is still here."
                remedy = "The next start of the broker removes it; doctor --sweep NAME does it now, by its delay."
                yield Finding(FindingCode.DELETE_DIRECTORY, Harm.WASTE, entry.path, text, remedy)
            case EntryKind.IMPORT if not is_live:
                text = (
                    f"An import that was killed {duration(entry.age_ms)} ago left its directory ({held}): no partition."
                )
                remedy = "The next import into this log dir removes it, or the next start of the broker."
                yield Finding(FindingCode.DELETE_DIRECTORY, Harm.WASTE, entry.path, text, remedy)
            case EntryKind.STRANGE:
                yield strange_directory_finding(entry.path)
            case _:
                pass


def _since(entry: EntrySymptoms) -> str:
    """Return the age of a rename as far as it is known: whoever copies a directory, or changes its owner, hides it."""
    return f" {duration(entry.age_ms)} ago or earlier"
