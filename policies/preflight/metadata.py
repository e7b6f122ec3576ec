"""Loads the cluster metadata as Kafka 4 does, from ``__cluster_metadata-0``, before it looks at any topic.

The metadata log is recovered at each start, from its beginning on, also after a clean shutdown. A start fails if the
metadata log has a feature level that the version of Kafka does not know. The levels are those of the jars of each
version, as a broker takes them without ``unstable.feature.versions.enable``. Kafka 3.0 to 3.2 write such records in
another way, and are left out, as are versions newer than the list.

Source: Kafka 4.3 ``KafkaRaftLog.createLog`` and ``recoverSnapshots``, ``FileQuorumStateStore``,
``MetadataVersion.fromFeatureLevel``, ``Feature``, ``FeatureControlManager.replay``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from policies.preflight.facts import KafkaFailure, PartitionBefore, Release
from policies.preflight.files import LoadingStopped, log_name
from policies.preflight.loading import Loading
from policies.preflight.start import LogStart, PartitionFate, Refusal, StartStepKind
from storage.names import CLUSTER_METADATA_TOPIC, TopicPartition

METADATA_VERSION: Final = "metadata.version"
_ELSEWHERE: Final = "kraft.version"
"""Control records state it; a feature record of this name is ignored."""
_OLD_SENTENCE: Final = Release(3, 8)
"""Versions before this one word the exception differently."""
_RANGE_SAID: Final = Release(4, 0)
"""Since then the sentence has the levels that there are."""

_TRANSACTIONS: Final = {"transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1}
_SHARES: Final = {**_TRANSACTIONS, "share.version": 1}
_STREAMS: Final = {**_SHARES, "streams.version": 1}

METADATA_DIR: Final = f"{CLUSTER_METADATA_TOPIC}-0"
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
SNAPSHOT: Final = re.compile(
    r"(\d{20})-(\d{10})\.checkpoint(\.part|\.deleted)?|(\d{20})-(\d{10})-\d+\.checkpoint\.part"
)
_DATA_VERSIONS: Final = (0, 1)


class MetadataBefore(NamedTuple):
    """The metadata log before a start."""

    partition: PartitionBefore
    quorum_state: bytes | None


class MetadataStart(NamedTuple):
    """The metadata log behind a start."""

    log: LogStart
    refusal: Refusal | None
    valid_bytes: tuple[tuple[str, int], ...]
    """Each ``.log`` that is left, and up to which byte it is read."""
    snapshot: str | None
    """The newest snapshot, which is read first."""


def load_metadata(before: MetadataBefore, path: str) -> MetadataStart:
    """Return what a start does with the metadata log in the log dir ``path``."""
    loading = Loading(before.partition, is_clean=False, recovery_point=0, log_start=0)
    failed: tuple[KafkaFailure, str] | None = None
    try:
        loading.run()
    except LoadingStopped as stopped:
        failed = stopped.failure, stopped.file
    failed = failed or _other_topic(before.partition) or _without_snapshot(loading)
    snapshot = None
    if not failed:
        snapshot = _take_snapshots(loading)
        failed = _quorum_failure(before.quorum_state)
    log = LogStart(
        before.partition.name,
        TopicPartition(CLUSTER_METADATA_TOPIC, 0),
        PartitionFate.REFUSES if failed else PartitionFate.SERVED,
        loading.files.net_steps(),
        loading.log_start,
        loading.log_end,
        dict(loading.files.sizes),
        *(failed or (None, None)),
    )
    place = f"{path}/{before.partition.name}"
    refusal = Refusal(f"{place}/{failed[1]}" if failed[1] else place, failed[0]) if failed else None
    valid = tuple((log_name(base), loading.files.sizes[log_name(base)]) for base in loading.bases)
    return MetadataStart(log, refusal, valid, snapshot)


def with_features(
    metadata: MetadataStart, levels: Iterable[tuple[str, int]], path: str, release: Release
) -> MetadataStart:
    """Return the metadata log with the refusal of a feature level in it that the Kafka does not know.

    Args:
        metadata: as the start left it.
        levels: feature and level of each record, in the order of the log.
        path: of its directory.
        release: of the Kafka that is to start.
    """
    failure = None if metadata.refusal else feature_failure(levels, release)
    if failure is None:
        return metadata
    log = metadata.log._replace(fate=PartitionFate.REFUSES, failure=failure, failed_file="")
    return metadata._replace(log=log, refusal=Refusal(path, failure))


class Levels(NamedTuple):
    """The levels that one version of Kafka knows. A feature that is not named has the level 0 alone."""

    lowest: int
    """The lowest level of ``metadata.version``."""
    highest: int
    """The same, for production."""
    highest_named: int
    """The highest level with a name, production or not. Kafka words the exception differently for levels beyond it."""
    others: dict[str, int]
    """Feature -> its highest level for production; each begins at 0."""


LEVELS: Final = {
    Release(3, 3): Levels(1, 7, 7, {}),
    Release(3, 4): Levels(1, 8, 8, {}),
    Release(3, 5): Levels(1, 11, 11, {}),
    Release(3, 6): Levels(1, 14, 14, {}),
    Release(3, 7): Levels(1, 19, 20, {}),
    Release(3, 8): Levels(1, 20, 21, {}),
    Release(3, 9): Levels(1, 21, 23, {}),
    Release(4, 0): Levels(7, 25, 26, _TRANSACTIONS),
    Release(4, 1): Levels(7, 27, 29, _SHARES),
    Release(4, 2): Levels(7, 29, 30, _STREAMS),
    Release(4, 3): Levels(7, 30, 31, _STREAMS),
    Release(4, 4): Levels(7, 33, 34, {**_STREAMS, "share.version": 2}),
}


def feature_failure(levels: Iterable[tuple[str, int]], release: Release) -> KafkaFailure | None:
    """Return the exception that the first unknown level of a metadata log raises; None if all are known.

    Args:
        levels: feature and level of each record, in the order of the log.
        release: of the Kafka that is to start.
    """
    known = LEVELS.get(release)
    if known is None:
        return None
    found = (_failure(name, level, known, release) for name, level in levels)
    return next((failure for failure in found if failure is not None), None)


def _other_topic(partition: PartitionBefore) -> tuple[KafkaFailure, str] | None:
    found = partition.topic_id.id
    if found is None or found == METADATA_TOPIC_ID:
        return None
    return KafkaFailure("InconsistentTopicIdException", f"the topic id is {found}"), "partition.metadata"


def _without_snapshot(loading: Loading) -> tuple[KafkaFailure, str] | None:
    start = loading.log_start or 0
    snapshots = _snapshots(loading.files.names())
    if start > 0 and (not snapshots or snapshots[-1][0] < start):
        cause = f"the log starts at offset {start}, and no snapshot reaches so far"
        return KafkaFailure("IllegalStateException", cause), ""
    return None


def _snapshots(names: Sequence[str]) -> list[tuple[int, int, str]]:
    found = [(SNAPSHOT.fullmatch(name), name) for name in names]
    whole = [(match, name) for match, name in found if match and match[1] and not match[3]]
    return sorted((int(match[1]), int(match[2]), name) for match, name in whole)


def _take_snapshots(loading: Loading) -> str | None:
    """Note which snapshots go; returns the newest one."""
    start = loading.log_start or 0
    for name in loading.files.names():
        found = SNAPSHOT.fullmatch(name)
        if found and (found[3] or found[4] or int(found[1]) < start):
            loading.files.delete(name, "a snapshot that is unfinished, deleted or too old")
    left = _snapshots(loading.files.names())
    if not left:
        return None
    end, _, name = left[-1]
    if loading.log_end is not None and end > loading.log_end:
        for base in loading.bases:
            size_bytes = loading.files.sizes.get(log_name(base), 0)
            loading.files.note(
                StartStepKind.TRUNCATE, log_name(base), f"the snapshot {name} is newer than the log",
                position=0, offset=end, size_bytes=size_bytes,
            )  # fmt: skip
            loading.files.retire(log_name(base), "the log begins anew behind the snapshot")
        loading.bases, loading.log_end, loading.log_start = [], end, end
    return name


def _quorum_failure(data: bytes | None) -> tuple[KafkaFailure, str] | None:
    if data is None:
        return None
    line = data.decode(errors="replace").split("\n", 1)[0]
    cause: str | None = None
    try:
        state = json.loads(line)
    except ValueError:
        cause = "is no JSON"
    else:
        if not isinstance(state, dict):
            cause = "is no JSON object"
        elif "data_version" not in state:
            cause = "has no data_version"
        elif state["data_version"] not in _DATA_VERSIONS:
            return KafkaFailure("IllegalStateException", f"data_version {state['data_version']}"), "quorum-state"
        elif "leaderEpoch" not in state or "leaderId" not in state:
            return KafkaFailure("RuntimeException", "a field is missing"), "quorum-state"
    return (KafkaFailure("UncheckedIOException", cause), "quorum-state") if cause else None


def _failure(name: str, level: int, known: Levels, release: Release) -> KafkaFailure | None:
    if name == _ELSEWHERE:
        return None
    lowest, highest = (known.lowest, known.highest) if name == METADATA_VERSION else (0, known.others.get(name, 0))
    if lowest <= level <= highest:
        return None
    if name == METADATA_VERSION and not lowest <= level <= known.highest_named:
        return KafkaFailure("IllegalArgumentException", _without_a_name(level, known, release))
    only = f"{lowest}-{highest}" if highest > lowest else f"{lowest}"
    cause = f"{name} has the level {level}, and Kafka {release} only supports versions {only}"
    return KafkaFailure("RuntimeException", cause)


def _without_a_name(level: int, known: Levels, release: Release) -> str:
    what = "metadata version" if release < _OLD_SENTENCE else "feature level"
    text = f"No MetadataVersion with {what} {level}"
    if release < _RANGE_SAID:
        return text
    return f"{text}. Valid feature levels are from {known.lowest} to {known.highest_named}."
