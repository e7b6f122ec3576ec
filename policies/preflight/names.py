"""The names of directories as Kafka reads them, which lets more through than it ever writes.

Source: Kafka ``LocalLog.parseTopicPartitionName``.
"""

from __future__ import annotations

import re
from typing import Final

from policies.preflight.facts import Release
from storage.names import DirState, TopicPartition

STRAY_SINCE: Final = Release(3, 7)
"""Since then ``-stray`` directories are known, and what the metadata do not place here becomes one."""
REMOTE_SINCE: Final = Release(3, 5)
"""Since then the directory ``remote-log-index-cache`` is left alone."""
_PARTITION: Final = re.compile(r"[+-]?\d+", re.ASCII)
_PARTITION_MAX: Final = (1 << 31) - 1


def parse_kafka_name(name: str, *, knows_stray: bool) -> TopicPartition | None:
    """Return the partition that Kafka takes a directory for; None where it refuses to start over the name.

    Args:
        name: of the directory.
        knows_stray: whether this Kafka has ``-stray`` directories.
    """
    states = [state for state in (DirState.DELETE, DirState.FUTURE, DirState.STRAY) if state.value]
    for state in states:
        if name.endswith(state.value) and (knows_stray or state is not DirState.STRAY):
            if not re.fullmatch(r"(\S+)-(\S+)\.(\S+)" + state.value, name):
                return None
            name = name[: name.rindex(".")]
            break
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not _PARTITION.fullmatch(partition):
        return None
    number = int(partition)
    return TopicPartition(topic, number) if -_PARTITION_MAX - 1 <= number <= _PARTITION_MAX else None
