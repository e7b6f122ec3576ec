"""The tables of the records in ``__transaction_state``.

Source: Kafka 4.4 ``transaction-coordinator/src/main/resources/common/message/*.json``.
"""

from __future__ import annotations

from typing import Final

from storage.schemas.notation import parse_messages

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
