"""Tombstones and transaction markers that may be gone, though the earlier state gave them no delete horizon.

A cleaner needs two rounds for that: the first stamps the horizon, its own moment plus ``delete.retention.ms``, and a
round behind that moment takes the record. Two states do not show the round in between. They show what must hold:

- The log was still in the earlier state when its newest ``.log`` was written, so the horizon lies behind that time plus
  ``delete.retention.ms``, and must have come.
- A round stamps every tombstone that it meets with one horizon, and goes from the log's start. If a tombstone is gone,
  so is every other one below it, and in its batch, that had no horizon. (Unless ``delete.retention.ms`` was lowered in
  between: that is told as damage.)
- A marker is stamped once no data of its transaction is left.
- Whatever took a tombstone took the older records of its key before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from cleaner.engine.compaction.digests import Digests
from cleaner.engine.compaction.fates import TRANSACTIONAL
from cleaner.engine.diff.two_states import OFFSET_END
from storage.arrays import Integers, Table, Words
from storage.kernels.layout import CONTROL

_LEFTOVERS_MAX: Final = 1 << 20


Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Between:
    """The known facts about the time between two states of a partition."""

    delete_retention_ms: int | None = None
    """The topic's ``delete.retention.ms``; None if nobody states it."""
    is_one_round: bool = False
    """Whether the later state is a copy that one round made of the earlier state."""

    def objection(self, since_ms: int, now_ms: int) -> str | None:
        """Say why no horizon can have been set and have come; None if it can.

        Args:
            since_ms: the log was still in the earlier state then, epoch ms.
            now_ms: delete horizons up to it have come, epoch ms.
        """
        if self.is_one_round:
            return "a single round, as made this copy, takes none such"
        if self.delete_retention_ms is None:
            return "nobody says whether its time has come: state it with --set delete.retention.ms=..."
        if since_ms + self.delete_retention_ms > now_ms:
            return "delete.retention.ms has not passed since the earlier state was written"
        return None


@dataclass(slots=True)
class LaterTombstones:
    """Follows the tombstones of the earlier state that no later record supersedes, in offset order."""

    _first_stayed: int = OFFSET_END
    """Offset of the first one without a horizon that is still there."""

    def may_be_gone(self, offsets: Integers, rows: Integers, gone: Flags) -> Flags:
        """Return which of the next tombstones without a horizon may be gone, by the others that had none.

        Args:
            offsets: of the next ones, ascending.
            rows: the batch of each.
            gone: whether each is gone.
        """
        stayed = offsets[~gone]
        if stayed.size and self._first_stayed == OFFSET_END:
            self._first_stayed = int(stayed[0])
        return gone & (offsets < self._first_stayed) & ~np.isin(rows, rows[~gone])


@dataclass(slots=True)
class LeftRecords:
    """Keys of records that stayed though a later one supersedes them, where the log was compacted: hardly any."""

    _keys: Words = field(default_factory=lambda: np.zeros(0, np.uint64))
    _are_too_many: bool = False

    def add(self, digests: Table) -> None:
        """Note the keys of some records."""
        if digests.size and not self._are_too_many:
            self._keys = np.union1d(self._keys, digests["key_low"])
            self._are_too_many = self._keys.size > _LEFTOVERS_MAX

    def have(self, digests: Table) -> Flags:
        """Return which tombstones, each the last record of its key, have an older record of it left.

        If too many records were left over to tell, all have: no round took anything there.
        """
        if self._are_too_many:
            return np.ones(digests.size, np.bool_)
        return np.isin(digests["key_low"], self._keys)


@dataclass(slots=True)
class Markers:
    """Follows the transactions of the earlier state in offset order: which have data left."""

    _with_data: set[int] = field(default_factory=set)
    """Producers whose present transaction has a record in the later state."""

    def without_data(self, run: Digests, rows: Integers, there: Flags) -> Flags:
        """Return which of the next records are markers of transactions that have no data left.

        Args:
            run: of the earlier state.
            rows: the batch of each record.
            there: whether each is in the later state.
        """
        table = run.slice_.table
        kept_rows = set(np.unique(rows[there]).tolist())
        bare = []
        for row in np.unique(rows[(table["attributes"][rows] & TRANSACTIONAL) != 0]).tolist():
            producer_id = int(table["producer_id"][row])
            if not table["attributes"][row] & CONTROL:
                self._with_data.update({producer_id} if row in kept_rows else ())
            elif producer_id in self._with_data:
                self._with_data.discard(producer_id)
            else:
                bare.append(row)
        return np.isin(rows, bare)
