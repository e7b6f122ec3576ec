"""The tables of the records in ``__remote_log_metadata``, and of the file of producer snapshots.

Source: Kafka 4.4 ``storage/src/main/resources/message/*.json``.
"""

from __future__ import annotations

from typing import Final

from storage.schemas.notation import parse_messages

REMOTE_LOG: Final = parse_messages("""
ProducerSnapshot - 1
  crc uint32
  producerEntries []ProducerEntry
    producerId int64
    epoch int16
    lastSequence int32
    lastOffset int64
    offsetDelta int32
    timestamp int64
    coordinatorEpoch int32
    currentTxnFirstOffset int64

RemoteLogSegmentMetadataRecord 0 0 flexible 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry
    topicIdPartition TopicIdPartitionEntry
      name string
      id uuid
      partition int32
    id uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs []SegmentLeaderEpochEntry
    leaderEpoch int32
    offset int64
  segmentSizeInBytes int32
  customMetadata bytes null default null
  remoteLogSegmentState int8
  txnIndexEmpty bool tag 0

RemoteLogSegmentMetadataSnapshotRecord 3 0 flexible 0+
  segmentId uuid
  startOffset int64
  endOffset int64
  brokerId int32
  maxTimestampMs int64
  eventTimestampMs int64
  segmentLeaderEpochs []SegmentLeaderEpochEntry
    leaderEpoch int32
    offset int64
  segmentSizeInBytes int32
  customMetadata bytes null default null
  remoteLogSegmentState int8
  txnIndexEmpty bool tag 0

RemoteLogSegmentMetadataUpdateRecord 1 0 flexible 0+
  remoteLogSegmentId RemoteLogSegmentIdEntry
    topicIdPartition TopicIdPartitionEntry
      name string
      id uuid
      partition int32
    id uuid
  brokerId int32
  eventTimestampMs int64
  customMetadata bytes null default null
  remoteLogSegmentState int8

RemotePartitionDeleteMetadataRecord 2 0 flexible 0+
  topicIdPartition TopicIdPartitionEntry
    name string
    id uuid
    partition int32
  brokerId int32
  eventTimestampMs int64
  remotePartitionDeleteState int8
""")
"""The messages of ``__remote_log_metadata`` by name, and ``ProducerSnapshot``."""
