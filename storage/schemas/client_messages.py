"""The tables of messages within records: values of control records, and what a member of a classic group states.

Source: Kafka 4.4 ``clients/src/main/resources/common/message/*.json``.
"""

from __future__ import annotations

from typing import Final

from storage.schemas.notation import parse_messages

CLIENT_MESSAGES: Final = parse_messages("""
ControlRecordTypeSchema - 0
  type int16

EndTxnMarker - 0
  coordinatorEpoch int32

KRaftVersionRecord - 0 flexible 0+
  version int16
  kRaftVersion int16

LeaderChangeMessage - 0-1 flexible 0+
  version int16
  leaderId int32
  voters []Voter
  grantingVoters []Voter
  struct Voter
    voterId int32
    voterDirectoryId uuid 1+

SnapshotFooterRecord - 0 flexible 0+
  version int16

SnapshotHeaderRecord - 0 flexible 0+
  version int16
  lastContainedLogTimestamp int64

VotersRecord - 0 flexible 0+
  version int16
  voters []Voter
    voterId int32
    voterDirectoryId uuid
    endpoints []Endpoint
      name string
      host string
      port uint16
    kRaftVersionFeature KRaftVersionFeature
      minSupportedVersion int16
      maxSupportedVersion int16

ConsumerProtocolAssignment - 0-3
  assignedPartitions []TopicPartition
    topic string
    partitions []int32
  userData bytes null default null

ConsumerProtocolSubscription - 0-3
  topics []string
  userData bytes null default null
  ownedPartitions []TopicPartition 1+
    topic string
    partitions []int32
  generationId int32 2+ default -1
  rackId string 3+ null default null
""")
"""Control records and the consumer protocol by name."""
