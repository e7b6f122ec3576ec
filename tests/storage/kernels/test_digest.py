from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage.kernels.digest import digest_records
from storage.kernels.layout import DIGEST
from storage.kernels.status import BatchFate, Status
from tests.storage.kernels import twin
from tests.storage.kernels.bytes_of import SECRET, Batch, Record, keyed, varint
from tests.storage.kernels.calls import Scanned, scanned, window
from tests.storage.kernels.strategies import compiled, damaged_logs, logs

ROOM = 1000


def digested(
    data: bytes, found: Scanned, room: int = ROOM, *, data_only: bool = False, with_body: bool = True
) -> tuple[Status, int, list[tuple[int, ...]]]:
    digests = np.zeros(room, DIGEST)
    secret = map(np.uint64, SECRET)
    status, row, count = digest_records(
        window(data), found.table, 0, found.table.size, *secret, data_only, with_body, digests, 0
    )
    return Status(status), row, [tuple(int(field) for field in digest) for digest in digests[:count]]


def by_twin(data: bytes, row: twin.Row) -> list[tuple[int, ...]]:
    digests = []
    for record in twin.records(data, row):
        timestamp = row.max_timestamp if row.attributes & 0x08 else row.base_timestamp + record.timestamp_delta
        key_bytes, value_bytes = (-1 if field is None else len(field) for field in (record.key, record.value))
        body = record.tail[len(varint(record.offset - row.base_offset) + varint(key_bytes)) :]
        hashes = (*twin.sip_hash(record.key or b"", SECRET), *twin.sip_hash(body, SECRET))
        digests.append((record.offset, record.ordinal, timestamp, *hashes, key_bytes, value_bytes))
    return digests


@compiled
@given(logs(), st.booleans())
def test_any_log_has_the_digests_of_the_twin(data: bytes, with_body: bool) -> None:
    _, rows, _ = twin.scan(data)
    found = scanned(data)
    status, row, digests = digested(data, found, with_body=with_body)
    expected = [digest for each in rows for digest in by_twin(data, each)]
    if not with_body:
        expected = [(*digest[:5], 0, 0, *digest[7:]) for digest in expected]
    assert (status, row, digests) == (Status.OK, len(rows), expected)
    counted = [sum(record.value is None for record in twin.records(data, each)) for each in rows]
    assert found.table["tombstones"].tolist() == counted


@compiled
@example(Batch((), attributes=1, last_offset_delta=0).encode())
@given(damaged_logs())
def test_damaged_bytes_fail_where_and_as_the_twin_does(data: bytes) -> None:
    _, rows, _ = twin.scan(data)
    expected = Status.OK, len(rows)
    for number, each in enumerate(rows):
        try:
            list(twin.records(data, each))
        except twin.BadBytesError as bad:
            expected = bad.status, number
            break
    assert digested(data, scanned(data), 1 << 16)[:2] == expected


def test_batches_that_are_discarded_or_kept_as_a_whole_are_left_out_where_only_data_is_wanted() -> None:
    data = b"".join(Batch(keyed("a", "b"), base_offset=at).encode() for at in (0, 2, 4))
    found = scanned(data)
    found.table["fate"] = [BatchFate.RETAIN_EMPTY, BatchFate.DISCARD, BatchFate.KEEP]
    assert [digest[0] for digest in digested(data, found, data_only=True)[2]] == [0, 1]
    assert len(digested(data, found)[2]) == 6


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_batch_that_does_not_fit_is_named_and_left_for_another_call(room: int) -> None:
    data = Batch(keyed("a", "b")).encode() + Batch(keyed("c", "d"), base_offset=2).encode()
    status, row, digests = digested(data, scanned(data), room)
    assert (status, row, len(digests)) == (Status.TABLE_FULL, room // 2, room // 2 * 2)


def test_another_value_or_header_makes_another_body_and_the_same_key() -> None:
    records = (Record(b"k", b"v"), Record(b"k", b"w", 1), Record(b"k", b"v", 2, headers=((b"h", None),)))
    data = Batch(records).encode()
    digests = digested(data, scanned(data))[2]
    assert len({digest[5:7] for digest in digests}) == 3
    assert len({digest[3:5] for digest in digests}) == 1
