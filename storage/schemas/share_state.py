"""The tables of the records in ``__share_group_state``.

Source: Kafka 4.4 ``share-coordinator/src/main/resources/common/message/*.json``.
"""

from __future__ import annotations

from typing import Final

from storage.schemas.notation import parse_messages

SHARE_STATE: Final = parse_messages("""
ShareSnapshotKey 0 0
  groupId string
  topicId uuid
  partition int32

ShareSnapshotValue 0 0 flexible 0+
  snapshotEpoch int32
  stateEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 tag 0 default -1
  createTimestamp int64
  writeTimestamp int64
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16

ShareUpdateKey 1 0
  groupId string
  topicId uuid
  partition int32

ShareUpdateValue 1 0 flexible 0+
  snapshotEpoch int32
  leaderEpoch int32
  startOffset int64
  deliveryCompleteCount int32 tag 0 default -1
  stateBatches []StateBatch
    firstOffset int64
    lastOffset int64
    deliveryState int8
    deliveryCount int16
""")
"""The messages of ``__share_group_state`` by name."""
