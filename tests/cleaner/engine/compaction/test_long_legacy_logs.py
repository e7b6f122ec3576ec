"""Logs of version 1 with more records than a word of the survivors' bitmap has bits, and short reads of them."""

from __future__ import annotations

import os

import pytest

from cleaner.engine.outcome import Basis
from storage.codecs.compression import Compression
from storage.records import Record, encode_message, encode_wrapper
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    records_in,
    request,
)

RECORDS = 300
BATCH = 10
OLD_MS = NOW_MS - 9 * DAY_MS
LAYERS = configured(orders={**COMPACT, "delete.retention.ms": str(DAY_MS)})
TOMBSTONES = {n for n in range(RECORDS) if n % 7 == 3 or 60 <= n < 70 or 124 <= n < 132}


def batch(first, *, is_wrapped):
    offsets = range(first, first + BATCH)
    records = [Record(n, OLD_MS, b"k%d" % n, None if n in TOMBSTONES else b"v") for n in offsets]
    return (
        encode_wrapper(records, 1, Compression.GZIP) if is_wrapped else b"".join(encode_message(r, 1) for r in records)
    )


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def orders(tmp_path, request):
    """Clean up to 1000: tombstones of long ago, and a newer segment by which they are due. Dirty behind that."""
    made = PartitionDir(tmp_path)
    batches = [batch(n, is_wrapped=request.param) for n in range(0, RECORDS, BATCH)]
    made.segment(0, *batches, mtime_ms=OLD_MS)
    made.segment(900, keyed(900, "y=1")).segment(1000, keyed(1000, "k8=new")).segment(2000, keyed(2000, "z=1"))
    committed(tmp_path, made)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 1000\n")
    return made.path


def test_every_expired_tombstone_goes_and_no_other_record(orders):
    _, outcome = a_cleaner(orders.parent, LAYERS).clean(request())
    assert [result.error for result in outcome.results.values()] == [None]
    left = [n for n in range(RECORDS) if n not in TOMBSTONES and n != 8]
    assert [record.offset for record in records_in(orders)] == [*left, 900, 1000, 2000]


@pytest.mark.parametrize("most_bytes", [1, 100])
def test_reads_that_give_less_than_was_asked_for_make_no_difference(orders, monkeypatch, most_bytes):
    cleaner = a_cleaner(orders.parent, LAYERS)
    whole = cleaner.would_do(cleaner.plan(request()), exact=True)
    real, short = os.preadv, []

    def preadv(descriptor, buffers, position):
        (buffer,) = buffers
        short.append(len(buffer) > most_bytes)
        return real(descriptor, [buffer[:most_bytes]], position)

    monkeypatch.setattr(os, "preadv", preadv)
    again = cleaner.would_do(cleaner.plan(request()), exact=True)
    assert any(short)
    assert [(r.error, r.records_kept, r.compacted_to_bytes) for r in again.results.values()] == [
        (None, r.records_kept, r.compacted_to_bytes) for r in whole.results.values()
    ]


def test_file_that_ends_early_while_it_is_read_is_not_measured(orders, monkeypatch):
    cleaner = a_cleaner(orders.parent, LAYERS)
    plan = cleaner.plan(request())
    monkeypatch.setattr(os, "preadv", lambda descriptor, buffers, position: 0)
    (result,) = cleaner.would_do(plan, exact=True).results.values()
    assert (result.basis, result.records_read) == (Basis.ESTIMATE, 0)
