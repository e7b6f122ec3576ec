"""The leader epochs, producers and transactions that the batches of one segment tell of, in few values.

A log of idempotent producers names one in each batch, so nothing here works batch by batch in Python, but where a
transaction begins or ends, or an epoch does.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from storage.anomalies import ABORT, COMMIT, DATA, EpochRun, Gap, LastBatch, TxnEvent
from storage.arrays import Table
from storage.errors import CorruptBatch
from storage.kernels.layout import CONTROL, DELETE_HORIZON, HEADER_BYTES
from storage.records.header import ATTRIBUTE_TRANSACTIONAL, sequence_after
from storage.records.record import NO_PRODUCER_ID
from storage.scan.slices import Slice
from storage.scan.walking import Rows

_MARKER: Final = struct.Struct(">bbbbbhhbhi")
"""A marker as Kafka writes it: length, attributes, timestamp delta, offset delta, key length (4), version, type, value
length (6), version, coordinator epoch."""
_KEY_LENGTH: Final = 8  # zigzag of 4
_VALUE_LENGTH: Final = 12  # zigzag of 6


class BatchHistory:
    """The history that the batches of one segment tell, taken in their order."""

    def __init__(self, path: Path) -> None:
        """Begin with no batch."""
        self.epochs: list[EpochRun] = []
        self.producers: dict[int, LastBatch] = {}
        self.events: list[TxnEvent] = []
        self.gap: Gap | None = None
        """The first gap."""
        self.gaps = 0
        self.is_full = True
        """Whether every batch still has all the records that its offsets speak of, as far as headers tell."""
        self._path = path
        self._open: dict[int, bool] = {}
        """Producers with a transaction open, and whether a record of it was met."""

    def take(self, rows: Rows) -> None:
        """Take the next batches."""
        table = rows.table
        self._note_gaps(rows)
        if rows.is_legacy:
            return
        self._note_epochs(rows)
        if int(table["producer_id"].max()) > NO_PRODUCER_ID:
            attributes = table["attributes"]
            self._note_producers(table[(table["producer_id"] >= 0) & (attributes & CONTROL == 0)])
            steps = np.flatnonzero((attributes & ATTRIBUTE_TRANSACTIONAL != 0) & (table["producer_id"] >= 0))
            if steps.size:
                self._note_steps(rows, steps)

    def _note_gaps(self, rows: Rows) -> None:
        table = rows.table
        bases, lasts = table["base_offset"], table["last_offset"]
        lower = np.concatenate(([rows.first_offset], lasts[:-1] + 1))
        gaps = np.flatnonzero(bases != lower)
        if gaps.size:
            self.gaps += gaps.size
            if self.gap is None:
                row = int(gaps[0])
                position = rows.file_position + int(table["position"][row])
                self.gap = Gap(int(lower[row]), int(bases[row]), position)
        if not rows.is_legacy and self.is_full:
            is_full = table["record_count"] == lasts - bases + 1
            self.is_full = bool(is_full.all()) and not bool((table["attributes"] & DELETE_HORIZON).any())

    def _note_epochs(self, rows: Rows) -> None:
        epochs, bases = rows.table["leader_epoch"], rows.table["base_offset"]
        edges = [0, *(np.flatnonzero(epochs[1:] != epochs[:-1]) + 1).tolist(), epochs.size]
        for first, behind in pairwise(edges):
            epoch, last_offset = int(epochs[first]), int(bases[behind - 1])
            if self.epochs and self.epochs[-1].epoch == epoch:
                self.epochs[-1] = self.epochs[-1]._replace(last_offset=last_offset)
            else:
                position = rows.file_position + int(rows.table["position"][first])
                self.epochs.append(EpochRun(epoch, int(bases[first]), last_offset, position))

    def _note_producers(self, data: Table) -> None:
        if not data.size:
            return
        ids = data["producer_id"]
        if ids[0] == ids[-1] and (ids == ids[0]).all():
            newest = [data.size - 1]
        else:
            newest = (data.size - 1 - np.unique(ids[::-1], return_index=True)[1]).tolist()
        for row in newest:
            batch = data[row]
            delta = int(batch["last_offset"] - batch["base_offset"])
            sequence = sequence_after(int(batch["base_sequence"]), delta)
            self.producers[int(batch["producer_id"])] = LastBatch(
                int(batch["producer_epoch"]), sequence, int(batch["last_offset"]), delta
            )

    def _note_steps(self, rows: Rows, steps: np.ndarray) -> None:
        """Note where transactions begin and end. Neighbouring batches of one transaction are one step."""
        table = rows.table[steps]
        ids, is_control, has_records = (
            table["producer_id"],
            table["attributes"] & CONTROL != 0,
            table["record_count"] > 0,
        )
        is_new = np.ones(steps.size, np.bool_)
        is_new[1:] = is_control[1:] | is_control[:-1] | (ids[1:] != ids[:-1]) | (has_records[1:] & ~has_records[:-1])
        for at in np.flatnonzero(is_new).tolist():
            batch, producer_id = table[at], int(ids[at])
            position = rows.file_position + int(batch["position"])
            if is_control[at]:
                if (what := self._marker(rows, int(steps[at]))) is not None:
                    self._open.pop(producer_id, None)
                    self.events.append(TxnEvent(int(batch["base_offset"]), producer_id, what, False, position))
            elif self._open.get(producer_id, -1) < bool(has_records[at]):
                self._open[producer_id] = bool(has_records[at])
                self.events.append(
                    TxnEvent(int(batch["base_offset"]), producer_id, DATA, bool(has_records[at]), position)
                )

    def _marker(self, rows: Rows, row: int) -> int | None:
        """Return what a control batch says; None for an empty one, and for what is no marker of a transaction."""
        batch = rows.table[row]
        if batch["record_count"] != 1:
            return None
        start = int(batch["position"]) + HEADER_BYTES
        if batch["size"] >= HEADER_BYTES + _MARKER.size:
            _, _, delta, _, key_length, version, kind, value_length, _, _ = _MARKER.unpack_from(rows.buf.data, start)
            if delta == 0 and key_length == _KEY_LENGTH and version == 0 and value_length == _VALUE_LENGTH:
                return {0: ABORT, 1: COMMIT}.get(kind)
        try:
            marker = Slice(rows.buf, rows.file_position, rows.table, 0, self._path).v2_batch(row).txn_marker()
        except CorruptBatch:
            return None
        return None if marker is None else (ABORT if marker.is_abort else COMMIT)
