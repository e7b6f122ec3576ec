"""The records of a coordinator's topic: the framing of their keys and values, and the tables of their fields.

A key begins with its type, an int16; ``apiKey`` in Kafka's schemas. A value begins with its version, an int16. Beside
them stand the tables of messages within records: values of control records, the metadata of a member of a classic
group, ``__share_group_state`` and ``__transaction_state``.

Source: Kafka ``CoordinatorRecordSerde``, ``CoordinatorRecordType``; Kafka 4.4
``clients/src/main/resources/common/message/*.json``, ``share-coordinator/src/main/resources/common/message/*.json``,
``transaction-coordinator/src/main/resources/common/message/*.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from storage.errors import InvalidRecord
from storage.schemas.decoding import Fields, decode
from storage.schemas.notation import Message, parse_messages

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

TRANSACTIONS_TOPIC: Final = parse_messages("""
TransactionLogKey 0 0
  transactionalId string

TransactionLogValue 0 0-1 flexible 1+
  producerId int64
  previousProducerId int64 1+ tag 0 default -1
  nextProducerId int64 1+ tag 1 default -1
  producerEpoch int16
  nextProducerEpoch int16 1+ tag 3 default -1
  transactionTimeoutMs int32
  transactionStatus int8
  transactionPartitions []PartitionsSchema null
    topic string
    partitionIds []int32
  transactionLastUpdateTimestampMs int64
  transactionStartTimestampMs int64
  clientTransactionVersion int16 1+ tag 2 default 0
""")
"""The messages of ``__transaction_state`` by name."""

_PREFIX_BYTES: Final = 2
_KEY, _VALUE = "Key", "Value"


class DecodedKey(NamedTuple):
    """The key of a record."""

    kind: str
    """The name of its schema without ``Key``: ``OffsetCommit``."""
    fields: Fields


class CoordinatorRecords:
    """The schemas of the records of one topic."""

    def __init__(self, messages: Mapping[str, Message]) -> None:
        """Find the keys by their types.

        Args:
            messages: the table of the topic, with a ``...Key`` and a ``...Value`` of each type.
        """
        self._messages = messages
        self._keys = {
            message.api_key: (name.removesuffix(_KEY), message)
            for name, message in messages.items()
            if name.endswith(_KEY)
        }

    def key(self, data: bytes) -> DecodedKey:
        """Decode a key. Raises: InvalidRecord, also for a type that the table does not have."""
        type_ = _prefix(data, "key")
        if type_ not in self._keys:
            raise InvalidRecord(f"a key of type {type_}, which is not known")
        kind, message = self._keys[type_]
        return DecodedKey(kind, decode(message, message.versions.first, data, _PREFIX_BYTES))

    def value(self, kind: str, data: bytes) -> Fields:
        """Decode the value of a record that has a key of this kind. Raises: InvalidRecord."""
        return decode(self._messages[kind + _VALUE], _prefix(data, "value"), data, _PREFIX_BYTES)


def _prefix(data: bytes, what: str) -> int:
    if len(data) < _PREFIX_BYTES:
        raise InvalidRecord(f"a {what} of {len(data)} bytes")
    return int.from_bytes(data[:_PREFIX_BYTES], "big", signed=True)
