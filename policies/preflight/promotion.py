"""The end of moves between log dirs that a stop of the broker interrupted: a ``-future`` directory takes its name.

The controller assigns a moved partition to its new log dir before the broker renames the directory there. A broker
that stopped between the two renames it at its next start, as soon as it knows the cluster metadata.

Source: Kafka ``LogManager.recoverAbandonedFutureLogs`` (KAFKA-16082).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from policies.preflight.facts import KafkaFailure, Release, Replicas
from policies.preflight.start import Dirs, LogDirStart, LogStart, PartitionFate, Refusal, StartStep, StartStepKind
from storage.names import CLEANER_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT

PROMOTED_SINCE: Final = Release(3, 7)
_READ_LATER: Final = {HIGH_WATERMARK_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT}
_PROMOTED: Final = "the cluster metadata assign the partition to this log dir: it takes the place of the current one"


def promote(
    log_dirs: Sequence[LogDirStart], replicas: Replicas, directory_ids: Mapping[str, str]
) -> tuple[list[LogDirStart], list[Refusal]]:
    """Return the log dirs with each ``-future`` directory renamed that lies where the metadata have its partition.

    Args:
        log_dirs: as they are loaded.
        replicas: of the cluster metadata.
        directory_ids: path -> ``directory.id``.

    Returns: the log dirs, and what stops the broker: a current directory beside it has the name already.
    """
    taken: dict[tuple[str, str], LogStart] = {}
    refusals = []
    online = [log_dir for log_dir in log_dirs if not is_lost(log_dir)]
    for log_dir in log_dirs:
        for log in log_dir.logs:
            if log.fate is not PartitionFate.FUTURE or not _is_assigned(log, log_dir, replicas, directory_ids):
                continue
            offline = _offline_of(log, log_dir, log_dirs)
            if offline is not None:
                failure = KafkaFailure("KafkaStorageException", f"it takes its name now, and {offline} is offline")
                refusals.append(Refusal(f"{log_dir.path}/{log.name}", failure))
                continue
            here = next((one for one in online for old in one.logs if _is_current(old, log) and one is log_dir), None)
            if here is not None:
                cause = f"the cluster metadata assign it here, and {log.topic_partition} is here already"
                refusals.append(Refusal(f"{log_dir.path}/{log.name}", KafkaFailure("KafkaStorageException", cause)))
                continue
            step = StartStep(StartStepKind.RENAME, "", _PROMOTED)
            promoted = log._replace(fate=PartitionFate.SERVED, is_promoted=True, steps=(*log.steps, step))
            taken[log_dir.path, log.name] = promoted
            for one in online:
                for old in one.logs:
                    if _is_current(old, log):
                        taken[one.path, old.name] = _replaced(old, promoted, log_dir.path)
    return [
        one._replace(logs=tuple(taken.get((one.path, log.name), log) for log in one.logs)) for one in log_dirs
    ], refusals


def is_lost(log_dir: LogDirStart) -> bool:
    """Return whether a log dir goes offline while its partitions are loaded, and not later."""
    return log_dir.state is Dirs.OFFLINE and not {file for file, _ in log_dir.failures} <= _READ_LATER


def _offline_of(future: LogStart, log_dir: LogDirStart, log_dirs: Sequence[LogDirStart]) -> str | None:
    """Return the log dir that is offline, of those of a ``-future`` directory and of its current one; None if none is.

    Kafka stops over it: it renames directories there all the same.
    """
    concerned = [one for one in log_dirs if one is log_dir or any(_is_current(log, future) for log in one.logs)]
    return next((one.path for one in concerned if is_lost(one)), None)


def _is_assigned(log: LogStart, log_dir: LogDirStart, replicas: Replicas, directory_ids: Mapping[str, str]) -> bool:
    assigned = replicas.directory_of(log.topic_id, log.topic_partition.partition)
    return assigned is not None and assigned == directory_ids.get(log_dir.path)


def _is_current(log: LogStart, future: LogStart) -> bool:
    is_served = log.fate is PartitionFate.SERVED and not log.is_promoted
    return is_served and (log.topic_partition, log.topic_id) == (future.topic_partition, future.topic_id)


def _replaced(log: LogStart, by: LogStart, path: str) -> LogStart:
    why = f"the move to {path} ends: {by.name} takes its place"
    step = StartStep(StartStepKind.DELETE_LATER, "", why)
    return log._replace(fate=PartitionFate.DELETED, steps=(step,), replaced_up_to=by.log_end_offset)
