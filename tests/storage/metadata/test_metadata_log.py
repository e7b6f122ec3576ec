import base64
from pathlib import Path

import pytest

from storage.codecs.compression import Compression
from storage.errors import CorruptBatch, InvalidRecord, UnreadableFile
from storage.metadata.metadata_log import (
    ClusterMetadata,
    ConfigSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegun,
    parse_metadata_record,
    read_cluster_metadata,
)
from storage.records.v2 import ControlType, Record, encode_batch
from tests.batches import format_control_key

TOPIC, BROKER, GROUP = 2, 4, 32


def uvarint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + uvarint(rest) if rest else bytes([low])


def text(value: str | None) -> bytes:
    return uvarint(0) if value is None else uvarint(len(value.encode()) + 1) + value.encode()


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def uuid_text(number: int) -> str:
    return base64.urlsafe_b64encode(uuid(number)).decode().rstrip("=")


def message(kind: int, body: bytes, *, frame: int = 1, version: int = 0, tags: bytes = b"\0") -> bytes:
    return uvarint(frame) + uvarint(kind) + uvarint(version) + body + tags


def topic(name: str, topic_id: int) -> bytes:
    return message(2, text(name) + uuid(topic_id))


def config(kind: int, name: str, key: str, value: str | None) -> bytes:
    return message(4, bytes([kind]) + text(name) + text(key) + text(value))


def removal(topic_id: int) -> bytes:
    return message(9, uuid(topic_id))


BEGIN, END, ABORT = message(23, b"", tags=b"\x01\x00\x03" + text("tx")), message(24, b""), message(25, b"")
NO_OP = message(20, b"")


def batch(offset: int, *values: bytes, compression: Compression = Compression.NONE) -> bytes:
    records = [Record(offset + place, 1_000, None, value) for place, value in enumerate(values)]
    return encode_batch(records, compression=compression)


def control(offset: int, kind: ControlType) -> bytes:
    return encode_batch([Record(offset, 1_000, format_control_key(kind), b"\0\0")], is_control=True)


def write_log(directory: Path, *batches: bytes, base_offset: int = 0) -> Path:
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def write_snapshot(directory: Path, end_offset: int, *values: bytes, suffix: str = "", footer: bool = True) -> Path:
    path = directory / f"{end_offset:020d}-0000000003.checkpoint{suffix}"
    batches = [control(0, ControlType.SNAPSHOT_HEADER), batch(1, *values)]
    if footer:
        batches.append(control(1 + len(values), ControlType.SNAPSHOT_FOOTER))
    path.write_bytes(b"".join(batches))
    return path


def read(directory: Path, *values: bytes) -> ClusterMetadata:
    write_log(directory, batch(0, *values))
    return read_cluster_metadata(directory)


# Records


def test_the_records_that_concern_us_are_decoded() -> None:
    assert parse_metadata_record(topic("orders", 7)) == TopicCreated("orders", uuid_text(7))
    assert parse_metadata_record(removal(7)) == TopicRemoved(uuid_text(7))
    assert parse_metadata_record(config(BROKER, "", "a", None)) == ConfigSet(BROKER, "", "a", None)
    assert parse_metadata_record(BEGIN) == TransactionBegun()
    assert parse_metadata_record(NO_OP) is None


def test_a_string_longer_than_one_length_byte_is_decoded() -> None:
    assert parse_metadata_record(topic("t" * 249, 7)) == TopicCreated("t" * 249, uuid_text(7))


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", "past the end"),
        (message(20, b"", frame=0), "frame version 0"),
        (message(4, b"", version=1), "version 1 is not known"),
        (topic("orders", 7) + b"\0", "left behind"),
        (message(2, text(None) + uuid(7)), "null"),
        (message(2, uvarint(3) + b"\xff\xff" + uuid(7)), "UTF-8"),
        (b"\xff" * 6, "varint"),
        (message(9, uuid(7), tags=b"\x01\x00\x05"), "past the end"),
    ],
)
def test_a_malformed_record_tells_the_cause(value: bytes, cause: str) -> None:
    with pytest.raises(InvalidRecord, match=cause):
        parse_metadata_record(value)


@pytest.mark.parametrize(
    "value", [topic("orders", 7), config(TOPIC, "orders", "cleanup.policy", "compact"), removal(7)]
)
def test_a_record_cut_anywhere_is_refused(value: bytes) -> None:
    for size_bytes in range(len(value)):
        with pytest.raises(InvalidRecord):
            parse_metadata_record(value[:size_bytes])


# Replay


def test_topics_and_configs_are_collected_by_resource(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        topic("orders", 7),
        config(TOPIC, "orders", "cleanup.policy", "compact, delete"),
        config(BROKER, "", "log.retention.ms", "5"),
        config(BROKER, "1", "log.retention.ms", "6"),
        config(GROUP, "orders", "cleanup.policy", "delete"),
        NO_OP,
    )
    assert found.topic_ids == {"orders": uuid_text(7)}
    assert found.topic_configs == {"orders": {"cleanup.policy": "compact, delete"}}
    assert found.cluster_default == {"log.retention.ms": "5"}
    assert found.broker_configs == {"1": {"log.retention.ms": "6"}}
    assert (found.end_offset, found.torn_tail_bytes) == (6, 0)


@pytest.mark.parametrize(
    ("timestamps_ms", "newest_ms"), [((), None), ((-1,), None), ((0,), 0), ((-1, 5, 3, -1), 5), ((5, 9), 9)]
)
def test_the_newest_record_is_that_of_the_largest_timestamp(
    timestamps_ms: tuple[int, ...], newest_ms: int | None, tmp_path: Path
) -> None:
    write_log(tmp_path, *(encode_batch([Record(n, at_ms, None, NO_OP)]) for n, at_ms in enumerate(timestamps_ms)))
    assert read_cluster_metadata(tmp_path).newest_record_ms == newest_ms


def test_the_last_value_holds_and_null_unsets(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        config(TOPIC, "orders", "a", "1"),
        config(TOPIC, "orders", "a", "2"),
        config(TOPIC, "orders", "b", "1"),
        config(TOPIC, "orders", "b", None),
        config(TOPIC, "orders", "c", None),
        config(TOPIC, "clicks", "a", None),
    )
    assert found.topic_configs == {"orders": {"a": "2"}}


def test_a_removed_topic_takes_its_configs_along(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        topic("orders", 7),
        config(TOPIC, "orders", "cleanup.policy", "delete"),
        removal(7),
        topic("orders", 8),
        config(TOPIC, "orders", "segment.ms", "9"),
        removal(99),
    )
    assert found.topic_ids == {"orders": uuid_text(8)}
    assert found.topic_configs == {"orders": {"segment.ms": "9"}}


@pytest.mark.parametrize(("last", "topics"), [(END, {"a", "b", "c"}), (ABORT, {"a", "c"}), (NO_OP, {"a"})])
def test_a_transaction_takes_effect_whole_or_not_at_all(tmp_path: Path, last: bytes, topics: set[str]) -> None:
    found = read(tmp_path, topic("a", 1), BEGIN, topic("b", 2), last, topic("c", 3))
    assert set(found.topic_ids) == topics


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_every_codec_are_read(tmp_path: Path, compression: Compression) -> None:
    write_log(tmp_path, batch(0, topic("a", 1), compression=compression), control(1, ControlType.LEADER_CHANGE))
    found = read_cluster_metadata(tmp_path)
    assert (set(found.topic_ids), found.end_offset) == ({"a"}, 2)


def test_the_newest_complete_snapshot_is_taken_and_the_log_behind_it(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 5, topic("old", 1))
    write_snapshot(tmp_path, 10, topic("snap", 2))
    write_snapshot(tmp_path, 11, topic("half", 3), footer=False)
    write_snapshot(tmp_path, 12, topic("part", 4), suffix=".part")
    write_snapshot(tmp_path, 13, topic("gone", 5), suffix=".deleted")
    write_log(tmp_path, b"not read: the snapshot holds it")
    write_log(tmp_path, batch(8, *[topic("before", 6)] * 2), batch(10, topic("behind", 7)), base_offset=8)
    found = read_cluster_metadata(tmp_path)
    assert set(found.topic_ids) == {"snap", "behind"}
    assert found.end_offset == 11


def test_a_snapshot_cut_at_any_byte_is_passed_over(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, 1, topic("snap", 2))
    write_log(tmp_path, batch(0, topic("log", 1)))
    data = path.read_bytes()
    for size_bytes in range(0, len(data), 3):
        path.write_bytes(data[:size_bytes])
        assert set(read_cluster_metadata(tmp_path).topic_ids) == {"log"}


def test_a_snapshot_alone_is_enough(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 10, topic("snap", 2))
    assert set(read_cluster_metadata(tmp_path).topic_ids) == {"snap"}


# Damage


def test_a_torn_tail_ends_the_log_wherever_it_is_cut(tmp_path: Path) -> None:
    whole, last = batch(0, topic("a", 1)), batch(1, topic("b", 2))
    for kept_bytes in range(len(last)):
        write_log(tmp_path, whole, last[:kept_bytes])
        found = read_cluster_metadata(tmp_path)
        assert (set(found.topic_ids), found.torn_tail_bytes) == ({"a"}, kept_bytes)


@pytest.mark.parametrize("tail", [b"\0" * 100, b"\xff" * 100])
def test_a_tail_of_garbage_ends_the_log(tmp_path: Path, tail: bytes) -> None:
    write_log(tmp_path, batch(0, topic("a", 1)), tail)
    found = read_cluster_metadata(tmp_path)
    assert (found.end_offset, found.torn_tail_bytes) == (1, 100)


def test_damage_in_front_of_a_whole_batch_is_no_torn_tail(tmp_path: Path) -> None:
    first, second, third = (batch(place, topic("a", place)) for place in range(3))
    damaged = second[:-1] + bytes([second[-1] ^ 1])
    path = write_log(tmp_path, first, damaged, third)
    with pytest.raises(CorruptBatch) as raised:
        read_cluster_metadata(tmp_path)
    assert (raised.value.path, raised.value.position) == (path, len(first))


@pytest.mark.parametrize("size_bytes", [1, 2, 100])
def test_garbage_of_any_size_in_front_of_a_whole_batch_is_no_torn_tail(tmp_path: Path, size_bytes: int) -> None:
    first, second = (batch(place, topic("a", place)) for place in range(2))
    write_log(tmp_path, first, b"\xff" * size_bytes, second)
    with pytest.raises(CorruptBatch):
        read_cluster_metadata(tmp_path)


def test_damage_at_the_end_of_a_segment_that_is_not_the_last_raises(tmp_path: Path) -> None:
    write_log(tmp_path, batch(0, topic("a", 1)), batch(1, topic("b", 2))[:-1])
    write_log(tmp_path, batch(2, topic("c", 3)), base_offset=2)
    with pytest.raises(CorruptBatch, match="offsets 1 to 1 is missing"):
        read_cluster_metadata(tmp_path)


def test_a_log_that_does_not_start_at_the_snapshot_raises(tmp_path: Path) -> None:
    write_snapshot(tmp_path, 5, topic("a", 1))
    write_log(tmp_path, base_offset=9)
    with pytest.raises(CorruptBatch, match="offsets 5 to 8 is missing"):
        read_cluster_metadata(tmp_path)


@pytest.mark.parametrize("offset", [0, 3])
def test_a_batch_at_another_offset_than_is_due_raises(tmp_path: Path, offset: int) -> None:
    write_log(tmp_path, batch(0, NO_OP), batch(offset, NO_OP))
    with pytest.raises(CorruptBatch, match=f"starts at offset {offset} where 1 is due"):
        read_cluster_metadata(tmp_path)


def test_a_last_batch_with_a_wrong_crc_is_not_taken(tmp_path: Path) -> None:
    write_log(tmp_path, batch(0, topic("a", 1)), batch(1, topic("orders", 2)).replace(b"orders", b"0rders"))
    assert set(read_cluster_metadata(tmp_path).topic_ids) == {"a"}


def test_a_snapshot_with_bytes_behind_its_footer_is_passed_over(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path, 1, topic("snap", 2))
    path.write_bytes(path.read_bytes() + b"\0")
    write_log(tmp_path, batch(0, topic("log", 1)))
    assert set(read_cluster_metadata(tmp_path).topic_ids) == {"log"}


def test_a_record_of_a_later_kafka_raises_even_in_the_last_batch(tmp_path: Path) -> None:
    with pytest.raises(CorruptBatch, match="version 9 is not known"):
        read(tmp_path, message(4, b"", version=9))


@pytest.mark.parametrize("make", [False, True])
def test_a_directory_without_metadata_is_unreadable(tmp_path: Path, make: bool) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    if make:
        directory.mkdir()
        (directory / "quorum-state").write_text("{}")
    with pytest.raises(UnreadableFile):
        read_cluster_metadata(directory)


@pytest.mark.parametrize("bit", range(31))
def test_a_damaged_length_in_front_of_a_whole_batch_is_no_torn_tail(tmp_path: Path, bit: int) -> None:
    second = bytearray(batch(1, config(TOPIC, "a", "retention.ms", "1")))
    second[11 - bit // 8] ^= 1 << bit % 8
    write_log(tmp_path, batch(0, topic("a", 1)), bytes(second), batch(2, config(TOPIC, "a", "retention.ms", "-1")))
    with pytest.raises(CorruptBatch):
        read_cluster_metadata(tmp_path)
