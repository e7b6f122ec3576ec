"""The walk that looks for damage: what it sees of a batch that is not as it was written, and where it goes on."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from storage.anomalies import Anomaly
from storage.errors import PlanOutOfDate
from storage.records import Record, encode_batch
from storage.records.legacy import PREFIX
from storage.scan.walking import SEEN_MAX, WINDOW_BYTES, Hand, LogFile, LogWalk
from tests.legacy_logs import Format
from tests.partition_dirs import NOW_MS, keyed

BATCHES = tuple(keyed(10 * number, f"k{number}=value", f"l{number}=value") for number in range(6))
STARTS = tuple(sum(map(len, BATCHES[:number])) for number in range(len(BATCHES) + 1))


class Walked:
    """A walk over some bytes, done."""

    def __init__(
        self,
        path: Path,
        data: bytes,
        *,
        base_offset: int = 0,
        upper_offset: int | None = None,
        starts: tuple[int, ...] = (),
    ) -> None:
        path.write_bytes(data)
        self.spent_bytes = 0
        descriptor = os.open(path, os.O_RDONLY)
        try:
            file = LogFile(descriptor, path, base_offset, len(data), upper_offset, list(starts))
            self.walk = LogWalk(file, Hand(), self.spend)
            self.offsets = [offset for rows in self.walk.rows() for offset in rows.table["base_offset"].tolist()]
        finally:
            os.close(descriptor)
        self.seen = [(one.anomaly, one.position) for one in self.walk.seen]

    def spend(self, done_bytes: int) -> None:
        self.spent_bytes += done_bytes


def changed(data: bytes, position: int, *values: int) -> bytes:
    return data[:position] + bytes(values) + data[position + len(values) :]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


def test_a_healthy_log_is_read_to_its_end(log):
    walked = Walked(log, b"".join(BATCHES))
    assert (walked.seen, walked.offsets) == ([], [0, 10, 20, 30, 40, 50])
    assert (walked.walk.end_position, walked.walk.next_offset) == (STARTS[-1], 52)
    assert walked.spent_bytes == STARTS[-1]


def test_an_empty_log_has_nothing(log):
    walked = Walked(log, b"", base_offset=7)
    assert (walked.seen, walked.offsets, walked.walk.next_offset) == ([], [], 7)


def test_a_wrong_checksum_is_one_batch(log):
    walked = Walked(log, changed(b"".join(BATCHES), STARTS[2] + 70, 0xAA))
    assert (walked.seen, walked.offsets) == ([(Anomaly.CRC, STARTS[2])], [0, 10, 30, 40, 50])
    assert walked.walk.damaged == [(STARTS[2], STARTS[3])]


def test_a_length_that_is_too_long_is_passed_by_what_the_index_knows(log):
    data = changed(b"".join(BATCHES), STARTS[1] + 8, 0x10)
    walked = Walked(log, data, starts=STARTS[3:5])
    assert (walked.seen, walked.offsets) == ([(Anomaly.UNREADABLE, STARTS[1])], [0, 30, 40, 50])
    blind = Walked(log, data)
    assert (blind.seen, blind.offsets) == ([(Anomaly.TAIL, STARTS[1])], [0])


def test_a_length_that_leads_into_a_later_batch_is_no_checksum_of_that_one(log):
    data = changed(b"".join(BATCHES), STARTS[1] + 11, BATCHES[1][11] + 3)
    walked = Walked(log, data, starts=STARTS[2:])
    assert (walked.seen, walked.offsets) == ([(Anomaly.CRC, STARTS[1])], [0, 20, 30, 40, 50])


def test_an_index_that_lies_is_not_believed(log):
    data = changed(b"".join(BATCHES), STARTS[1] + 8, 0x10)
    walked = Walked(log, data, starts=(STARTS[1] + 5, STARTS[2] + 1, STARTS[4]))
    assert walked.offsets == [0, 40, 50]


@pytest.mark.parametrize("magic", [3, 77, 255])
def test_an_unknown_version_is_not_read(log, magic):
    walked = Walked(log, changed(b"".join(BATCHES), STARTS[5] + 16, magic))
    assert (walked.seen, walked.offsets) == ([(Anomaly.TAIL, STARTS[5])], [0, 10, 20, 30, 40])


def test_bytes_at_the_end_that_are_no_whole_batch(log):
    walked = Walked(log, b"".join(BATCHES) + BATCHES[0][:30])
    assert walked.seen == [(Anomaly.TAIL, STARTS[-1])]


def test_zeros_at_the_end_are_told_as_such(log):
    walked = Walked(log, b"".join(BATCHES) + bytes(3 * WINDOW_BYTES))
    assert walked.seen == [(Anomaly.ZERO_TAIL, STARTS[-1])]
    assert Walked(log, b"".join(BATCHES) + bytes(3 * WINDOW_BYTES) + b"1").seen == [(Anomaly.TAIL, STARTS[-1])]


def test_of_two_neighbours_the_one_that_stands_apart_is_told(log):
    too_high = [*BATCHES[:2], keyed(1 << 20, "a=1"), *BATCHES[3:]]
    walked = Walked(log, b"".join(too_high))
    assert walked.seen == [(Anomaly.OFFSET_BACK, STARTS[2])]
    too_low = [*BATCHES[:3], keyed(4, "a=1"), *BATCHES[4:]]
    walked = Walked(log, b"".join(too_low))
    assert walked.seen == [(Anomaly.OFFSET_BACK, STARTS[3])]
    assert walked.walk.is_disordered


def test_a_batch_below_the_base_is_told(log):
    assert Walked(log, b"".join(BATCHES[1:]), base_offset=11).seen == [(Anomaly.BELOW_BASE, 0)]


def test_the_first_batch_that_reaches_the_next_segment_is_told(log):
    assert Walked(log, b"".join(BATCHES), upper_offset=52).seen == []
    assert Walked(log, b"".join(BATCHES), upper_offset=31).seen == [(Anomaly.BEYOND_NEXT, STARTS[3])]


def test_a_batch_too_far_from_the_base_is_told(log):
    far = keyed((1 << 31) - 1, "a=1")
    assert Walked(log, far).seen == []
    assert Walked(log, BATCHES[0] + keyed(1 << 31, "a=1")).seen == [(Anomaly.OVERFLOW, STARTS[1])]


def test_a_negative_offset_is_no_batch(log):
    walked = Walked(log, changed(b"".join(BATCHES), STARTS[1], 0xFF))
    assert (walked.seen, walked.offsets) == ([(Anomaly.HEADER, STARTS[1])], [0, 20, 30, 40, 50])


def test_a_count_that_offsets_do_not_allow_is_told_although_the_checksum_agrees(log):
    wrong = _with_count(BATCHES[1], 5)
    walked = Walked(log, BATCHES[0] + wrong + BATCHES[2])
    assert (walked.seen, walked.offsets) == ([(Anomaly.HEADER, STARTS[1])], [0, 20])


def test_an_unknown_codec_is_told(log):
    walked = Walked(log, BATCHES[0] + _with_attributes(BATCHES[1], 5) + BATCHES[2])
    assert walked.seen == [(Anomaly.HEADER, STARTS[1])]


def test_a_batch_larger_than_a_window_is_read_whole(log):
    large = encode_batch([Record(2, NOW_MS, b"k", os.urandom(3 * WINDOW_BYTES))])
    walked = Walked(log, BATCHES[0] + large + BATCHES[1])
    assert (walked.seen, walked.offsets) == ([], [0, 2, 10])
    damaged = bytearray(BATCHES[0] + large + BATCHES[1])
    damaged[2 * WINDOW_BYTES] ^= 1
    walked = Walked(log, bytes(damaged))
    assert (walked.seen, walked.offsets) == ([(Anomaly.CRC, STARTS[1])], [0, 10])


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_versions_are_verified(log, magic):
    messages = [Format(magic).encode([Record(offset, NOW_MS, b"k", b"value")]) for offset in range(4)]
    assert Walked(log, b"".join(messages) + BATCHES[1]).offsets == [0, 1, 2, 3, 10]
    at = len(messages[0])
    walked = Walked(log, changed(b"".join(messages), at + PREFIX.size + 9, 0xEE))
    assert (walked.seen, walked.offsets) == ([(Anomaly.CRC, at)], [0, 2, 3])
    walked = Walked(log, b"".join([messages[0], messages[2], messages[1], messages[3]]))
    assert [anomaly for anomaly, _ in walked.seen] == [Anomaly.OFFSET_BACK]


def test_a_file_that_is_beyond_telling_is_not_told_to_its_end(log):
    data = b"".join(changed(keyed(number, "a=1"), 65, 0xEE) for number in range(3 * SEEN_MAX))
    assert len(Walked(log, data).seen) == SEEN_MAX + 1


def test_a_file_that_is_cut_while_it_is_read_is_no_damage(log, tmp_path):
    log.write_bytes(BATCHES[0])
    descriptor = os.open(log, os.O_RDONLY)
    walk = LogWalk(LogFile(descriptor, log, 0, STARTS[2], None, []), Hand(), lambda _: None)
    with pytest.raises(PlanOutOfDate):
        list(walk.rows())
    os.close(descriptor)


def _with_count(batch: bytes, count: int) -> bytes:
    return _sealed(batch[:57] + struct.pack(">i", count) + batch[61:])


def _with_attributes(batch: bytes, attributes: int) -> bytes:
    return _sealed(batch[:21] + struct.pack(">h", attributes) + batch[23:])


def _sealed(batch: bytes) -> bytes:
    return batch[:17] + struct.pack(">I", crc32c(batch[21:])) + batch[21:]
