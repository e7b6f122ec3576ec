"""Record, Batch, LegacyBatch and their headers: the record formats of Kafka, versions 0, 1 and 2, in readable
Python.

The compiled kernels do the same faster; tests hold one against the other.
"""

from storage.records.control import ControlType, TxnMarker, parse_control_type
from storage.records.encode import encode_batch
from storage.records.header import BatchHeader, parse_header
from storage.records.legacy import LegacyBatch, LegacyHeader
from storage.records.legacy_encode import encode_message, encode_wrapper
from storage.records.read_batches import (
    HeaderIterator,
    PositionedHeader,
    iter_headers,
    read_batch,
)
from storage.records.record import DECOMPRESSED_BYTES_MAX, Record
from storage.records.v2 import Batch

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
