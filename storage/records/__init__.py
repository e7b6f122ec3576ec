"""Record, Batch, LegacyBatch and their headers: the record formats of Kafka, versions 0, 1 and 2, in readable
Python.

The compiled kernels do the same faster; tests hold one against the other.
"""

from storage.records.legacy import LegacyBatch, LegacyHeader, encode_message, encode_wrapper
from storage.records.read_batches import (
    HeaderIterator,
    PositionedHeader,
    iter_headers,
    read_batch,
)
from storage.records.v2 import (
    DECOMPRESSED_BYTES_MAX,
    Batch,
    BatchHeader,
    ControlType,
    Record,
    TxnMarker,
    encode_batch,
    parse_control_type,
    parse_header,
)

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "Batch",
    "BatchHeader",
    "ControlType",
    "HeaderIterator",
    "LegacyBatch",
    "LegacyHeader",
    "PositionedHeader",
    "Record",
    "TxnMarker",
    "encode_batch",
    "encode_message",
    "encode_wrapper",
    "iter_headers",
    "parse_control_type",
    "parse_header",
    "read_batch",
]
