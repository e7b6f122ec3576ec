"""``dump`` and Kafka's own kafka-dump-log show the same, line for line, on stdout and on stderr.

``LOGCLEANER_DUMPS=all`` compares every file of the samples; otherwise every file of some stages of them.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from cleaner.dump.options import TopicDecoder
from storage.records import Record, encode_batch
from tests.cleaner.dump.batches import random_batch, random_log
from tests.conftest import Samples
from tests.interop.referee import KAFKA_MESSAGES, OLD_JVM_OPTIONS, Referee
from tests.interop.test_schemas import PACKAGES, random_fields
from tests.interop.tool import DUMP_LOG, Told, Tool

pytestmark = pytest.mark.kafka

ALL: Final = os.environ.get("LOGCLEANER_DUMPS") == "all"
OF_LOGS: Final = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
    ("--print-data-log", "--max-bytes", "5000"),
)
OF_INDEXES: Final = ((), ("--verify-index-only",), ("--index-sanity-check",), ("--max-message-size", "1000"))
DECODERS: Final = {
    "__consumer_offsets": ("--offsets-decoder",),
    "__transaction_state": ("--transaction-log-decoder",),
    "__cluster_metadata": ("--cluster-metadata-decoder",),
}


@pytest.fixture(scope="module")
def kafkas(newest_tools: str) -> Iterator[Tool]:
    with Tool(newest_tools, DUMP_LOG) as running:
        yield running


class Ours:
    """What our command prints."""

    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self._capture = capfdbinary

    def dump(self, path: Path, *options: str) -> tuple[bytes, str]:
        main(["dump", *options, str(path)])
        said = self._capture.readouterr()
        return said.out, said.err.decode()


@pytest.fixture
def ours(capfdbinary: pytest.CaptureFixture[bytes]) -> Ours:
    return Ours(capfdbinary)


def agree(theirs: Told, ours: tuple[bytes, str]) -> bool:
    """Where Kafka's tool dies of what it reads, it has printed the same up to there; our error is in our own words."""
    return ours[0].startswith(theirs.out) if theirs.error else (theirs.out, theirs.err) == ours


def options_of(path: Path) -> Sequence[tuple[str, ...]]:
    match path.suffix:
        case ".log" | ".checkpoint":
            topic = path.parent.name.rpartition("-")[0]
            decoder = DECODERS.get("__cluster_metadata" if path.suffix == ".checkpoint" else topic)
            return (*OF_LOGS, decoder, (*decoder, "--skip-record-metadata")) if decoder else OF_LOGS
        case ".index" | ".timeindex":
            return OF_INDEXES
        case ".snapshot" | ".txnindex":
            return ((),)
    return ()


def differences(files: Sequence[Path], kafkas: Tool, ours: Ours) -> tuple[list[tuple[str, ...]], int]:
    found, lines = [], 0
    for path in files:
        for options in options_of(path):
            theirs = kafkas.dump(path, *options)
            lines += theirs.out.count(b"\n")
            if not agree(theirs, ours.dump(path, *options)):
                found.append((str(path), *options))
    return found, lines


def files_of(root: Path, stages: Sequence[str]) -> list[Path]:
    return [path for stage in stages for path in sorted((root / stage).rglob("*")) if path.is_file()]


def test_samples_of_kafka_4(samples: Samples, kafkas: Tool, ours: Ours) -> None:
    stages = ("before", "after", "before2", "after2") if ALL else ("after",)
    found, lines = differences(files_of(samples.root, stages), kafkas, ours)
    assert found == []
    assert lines > 20_000


def test_samples_of_kafka_2(old_samples: Samples, kafkas: Tool, ours: Ours) -> None:
    found, lines = differences(files_of(old_samples.root, ("before", "after") if ALL else ("after",)), kafkas, ours)
    assert found == []
    assert lines > 20_000


def test_random_logs(referee: Referee, kafkas: Tool, ours: Ours, tmp_path: Path) -> None:
    partitions = [tmp_path / f"log-{place}" for place in range(12)]
    for place, partition in enumerate(partitions):
        partition.mkdir()
        referee.workload([partition], place, unkeyed=place % 3 == 0)
    found, lines = differences([path for path in sorted(tmp_path.rglob("*")) if path.is_file()], kafkas, ours)
    assert found == []
    assert lines > 1_000


@pytest.mark.parametrize("seed", range(4))
def test_random_bytes_and_a_torn_tail(seed: int, kafkas: Tool, ours: Ours, tmp_path: Path) -> None:
    source = random.Random(seed)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(random_log(seed, 400) + random_batch(source, 400 * 200)[: source.choice((0, 5, 17, 40))])
    found, lines = differences([path], kafkas, ours)
    assert found == []
    assert lines > 1_000


@pytest.mark.parametrize("decoder", ["long", "integer"])
def test_numbers(decoder: str, kafkas: Tool, ours: Ours, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(encode_batch([Record(0, 1, b"\xff" * 8, b"\x01" * 9), Record(1, 1, None, b"\x80" * 8)]))
    class_name = f"org.apache.kafka.tools.api.{decoder.capitalize()}Decoder"
    theirs = kafkas.dump(path, "--key-decoder-class", class_name, "--value-decoder-class", class_name)
    assert agree(theirs, ours.dump(path, "--key-decoder", decoder, "--value-decoder", decoder))


# Decoders: random messages that Kafka's own classes encode

GROUP, TRANSACTION, SHARE, METADATA, REMOTE, CLIENT = PACKAGES
KEYED: Final = {
    TopicDecoder.OFFSETS: GROUP,
    TopicDecoder.TRANSACTIONS: TRANSACTION,
    TopicDecoder.SHARE_GROUP_STATE: SHARE,
}
FRAMED: Final = {TopicDecoder.CLUSTER_METADATA: METADATA, TopicDecoder.REMOTE_LOG_METADATA: REMOTE}
STATES: Final = ("remoteLogSegmentState", "remotePartitionDeleteState")
MESSAGES_OF_EACH_VERSION: Final = 6


@pytest.fixture(scope="module")
def messages(newest_kafka: str) -> Iterator[Referee]:
    with Referee(newest_kafka, OLD_JVM_OPTIONS, KAFKA_MESSAGES) as running:
        yield running


class Encoder:
    """Random messages of one package, encoded by Kafka's classes."""

    def __init__(self, messages: Referee, package: str) -> None:
        self._messages, self.package, self._source = messages, package, random.Random(11)

    def encoded(self, name: str, version: int, count: int = MESSAGES_OF_EACH_VERSION) -> list[bytes]:
        table = PACKAGES[self.package][name]
        fields = [self._possible(random_fields(self._source, table.fields, version)) for _ in range(count)]
        answer = self._messages.encode(f"{self.package}.{name}", version, list(map(json.dumps, fields)))
        return [bytes.fromhex(line["bytes"]) for line in answer]

    def _possible(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Keep to states and offsets that Kafka's classes take."""
        for state in set(STATES) & fields.keys():
            fields[state] = self._source.randint(0, 2)
        if "segmentLeaderEpochs" in fields:
            fields["startOffset"], fields["endOffset"] = 5, 9
            fields["segmentLeaderEpochs"] = [{"leaderEpoch": 3, "offset": 5}, {"leaderEpoch": 2, "offset": 1}]
        return fields


def versioned(version: int, data: bytes) -> bytes:
    return version.to_bytes(2, "big", signed=True) + data


@pytest.mark.parametrize("decoder", KEYED)
def test_keyed_messages(decoder: TopicDecoder, messages: Referee, kafkas: Tool, ours: Ours, tmp_path: Path) -> None:
    encoder = Encoder(messages, KEYED[decoder])
    records: list[tuple[bytes | None, bytes | None]] = [(versioned(99, b""), b"x"), (versioned(0, b""), None)]
    for name, message in PACKAGES[encoder.package].items():
        if name.endswith("Key"):
            continue
        assert message.api_key is not None
        for version in range(message.versions.first, message.versions.last + 1):
            values = encoder.encoded(name, version)
            keys = encoder.encoded(f"{name.removesuffix('Value')}Key", 0)
            for key, value in zip(keys, values, strict=True):
                records.append((versioned(message.api_key, key), versioned(version, value)))
            records.append((versioned(message.api_key, keys[0]), None))
    assert_same_lines(records, f"--{decoder}-decoder", kafkas, ours, tmp_path)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


@pytest.mark.parametrize("decoder", FRAMED)
def test_framed_messages(decoder: TopicDecoder, messages: Referee, kafkas: Tool, ours: Ours, tmp_path: Path) -> None:
    encoder = Encoder(messages, FRAMED[decoder])
    records: list[tuple[bytes | None, bytes | None]] = []
    for name, message in PACKAGES[encoder.package].items():
        if message.api_key is None:
            continue
        for version in range(message.versions.first, message.versions.last + 1):
            frame = b"\x01" + uvarint(message.api_key) + uvarint(version)
            records += [(None, frame + value) for value in encoder.encoded(name, version)]
    assert_same_lines(records, f"--{decoder}-decoder", kafkas, ours, tmp_path)


def assert_same_lines(
    records: Sequence[tuple[bytes | None, bytes | None]], option: str, kafkas: Tool, ours: Ours, scratch: Path
) -> None:
    """Compare; what Kafka's tool says of a record that it cannot decode is in words of its own."""
    path = scratch / f"{0:020d}.log"
    path.write_bytes(
        b"".join(encode_batch([Record(place, 0, key, value)]) for place, (key, value) in enumerate(records))
    )
    theirs, (out, _) = kafkas.dump(path, option), ours.dump(path, option)
    assert theirs.error == ""
    assert theirs.out.count(b"\n") == out.count(b"\n")
    lines = [line for line in zip(theirs.out.splitlines(), out.splitlines(), strict=True) if b"rror at" not in line[0]]
    assert [pair for pair in lines if pair[0] != pair[1]] == []
    assert len(lines) > len(records)
    assert sum(b"rror at" in line for line in out.splitlines()) < 2


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (2, "LeaderChangeMessage"),
        (3, "SnapshotHeaderRecord"),
        (4, "SnapshotFooterRecord"),
        (5, "KRaftVersionRecord"),
        (6, "VotersRecord"),
        (17, None),
    ],
)
def test_control_records_of_kraft(
    kind: int, name: str | None, messages: Referee, kafkas: Tool, ours: Ours, tmp_path: Path
) -> None:
    values = [b"what a later Kafka says"]
    if name is not None:
        versions = PACKAGES[CLIENT][name].versions
        values = [
            versioned(version, value[2:])  # the first field is the version itself
            for version in range(versions.first, versions.last + 1)
            for value in Encoder(messages, CLIENT).encoded(name, version)
        ]
    key = versioned(0, versioned(kind, b""))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(
        b"".join(encode_batch([Record(place, 0, key, one)], is_control=True) for place, one in enumerate(values))
    )
    assert agree(kafkas.dump(path, "--deep-iteration"), ours.dump(path, "--deep-iteration"))
