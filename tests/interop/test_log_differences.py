"""The table of ``docs/log.md``: where our ``Log`` differs from Kafka's and means it, one test a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import pytest

from storage.codecs.compression import Compression
from storage.records import Record, encode_batch
from storage.records.v2 import ATTRIBUTE_COMPRESSION
from tests.interop.lives.batches import with_header
from tests.interop.lives.comparing import STUMBLES, decoded, file_differences
from tests.interop.lives.kafka_side import KafkaLives, KafkaSide
from tests.interop.lives.life import START_MS, Life
from tests.interop.lives.our_side import OurSide
from tests.interop.lives.steps import Answer, Step

pytestmark = pytest.mark.kafka

LOG: Final = "00000000000000000000.log"
DEFAULTS: Final = {
    "internal.segment.bytes": "100000",
    "segment.index.bytes": "1000",
    "index.interval.bytes": "4096",
    "message.timestamp.type": "CreateTime",
    "cleanup.policy": "delete",
    "compression.type": "producer",
}
APPEND: Final = {"epoch": 0, "origin": "CLIENT"}


@dataclass(slots=True)
class Both:
    """One log on each side."""

    kafka: KafkaSide
    ours: OurSide
    now_ms: int = START_MS
    answers: list[tuple[Answer, Answer]] = field(default_factory=list)

    def do(self, kind: str, **options: object) -> tuple[Answer, Answer]:
        """Do one step on both sides."""
        self.now_ms += 1_000
        step = Step(kind, options)
        return self.kafka.do(step, self.now_ms), self.ours.do(step, self.now_ms)

    def append(self, data: bytes) -> tuple[Answer, Answer]:
        """Append what a client sends."""
        return self.do("append", data=data, **APPEND)

    def files(self) -> tuple[set[str], set[str]]:
        """Names of the files on both sides."""
        kafka, ours = ({path.name for path in side.directory.iterdir()} for side in (self.kafka, self.ours))
        return kafka, ours

    def logs(self) -> tuple[bytes, bytes]:
        """The first ``.log`` on both sides."""
        return (self.kafka.directory / LOG).read_bytes(), (self.ours.directory / LOG).read_bytes()

    def differences(self) -> list[str]:
        """Where the files differ."""
        return list(file_differences(self.kafka.directory, self.ours.directory, recompresses=False))


@pytest.fixture(scope="module")
def jvm(kafka: str) -> Iterator[KafkaLives]:
    """One JVM for all tests."""
    with KafkaLives(kafka) as running:
        yield running


@pytest.fixture
def both(jvm: KafkaLives, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Both]:
    """A new log on each side, with the configuration that the test names."""
    changes: Mapping[str, str] = getattr(request, "param", {})
    life = Life(0, {**DEFAULTS, **changes})
    directories = tmp_path / "kafka" / "lived-0", tmp_path / "ours" / "lived-0"
    for directory in directories:
        directory.mkdir(parents=True)
    made = Both(KafkaSide(jvm, life, directories[0]), OurSide(life, directories[1]))
    made.do("open", start=0)
    yield made
    made.kafka.do(Step("kill"), 0)
    made.ours.end()


def batch(codec: Compression = Compression.NONE, count: int = 40) -> bytes:
    """Records that compress."""
    dice = Random(25)
    records = [Record(place, START_MS, b"k%d" % place, dice.randbytes(9) * 20) for place in range(count)]
    return encode_batch(records, compression=codec)


@pytest.mark.parametrize(
    "both", [{"compression.type": name} for name in ("gzip", "snappy", "lz4", "zstd")], indirect=True
)
def test_records_that_the_log_compresses_are_kafkas_whatever_the_compressor_makes_of_them(both: Both) -> None:
    kafka, ours = both.append(batch())
    assert (kafka.result, kafka.error) == (ours.result, None)
    theirs, own = both.logs()
    assert decoded(theirs) == decoded(own)
    assert len(own) < len(batch()) / 2


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_records_that_are_not_compressed_as_they_say_are_refused_by_name_where_kafka_stumbles(
    both: Both, codec: Compression
) -> None:
    kafka, ours = both.append(with_header(batch(), attributes=codec))
    assert kafka.error in STUMBLES or kafka.error == "InvalidRecordException"
    assert ours.is_refusal
    assert both.logs() == (b"", b"")
    kafka, ours = both.append(batch(codec))
    assert kafka.result == ours.result is not None


def test_kafka_names_what_is_wrong_with_the_records_before_it_comes_to_the_end_of_the_compressed_bytes(
    both: Both,
) -> None:
    data = batch(Compression.GZIP)
    data = with_header(data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], record_count=39, last_offset_delta=38)
    kafka, ours = both.append(data)
    assert (kafka.error, ours.error) == ("InvalidRecordException", "KafkaException")
    assert ours.is_refusal
    assert both.differences() == []


def test_codec_that_does_not_exist_is_refused_by_name_where_kafka_stumbles(both: Both) -> None:
    kafka, ours = both.append(with_header(batch(), attributes=ATTRIBUTE_COMPRESSION))
    assert kafka.error in STUMBLES
    assert ours.is_refusal
    assert both.differences() == []


def test_zeros_behind_a_time_index_hide_no_record_after_a_clean_stop(both: Both) -> None:
    both.append(batch())
    both.do("roll")
    both.append(batch(count=41))
    both.do("close")
    for side in (both.kafka, both.ours):
        path = side.directory / "00000000000000000000.timeindex"
        path.write_bytes(path.read_bytes() + bytes(24))
    both.do("open", start=0)
    kafka, ours = both.do("lookup", time=START_MS)
    assert kafka.result is not None
    assert ours.result is not None
    assert (kafka.result["offset"], ours.result["offset"]) == (40, 0)


def test_looks_at_an_empty_segment_make_no_index_files(both: Both) -> None:
    both.append(batch())
    both.do("roll")
    before, _ = both.files()
    both.do("lookup", time=START_MS)
    both.do("lookup", time=START_MS + 10_000)
    kafka, ours = both.files()
    made = {"00000000000000000040.index", "00000000000000000040.timeindex"}
    assert (kafka - before, ours - before) <= (made, set())
    both.append(batch())
    assert both.differences() == []


def test_empty_segment_that_is_rolled_stays_where_kafka_makes_it_anew(both: Both) -> None:
    both.append(batch())
    both.do("roll")
    assert both.files()[0] == both.files()[1]
    both.do("roll")
    kafka, ours = both.files()
    assert {name for name in kafka - ours if not name.endswith(".deleted")} == set()
    assert kafka - ours == {name for name in kafka if name.endswith(".deleted")} != set()
