"""Which exception each mistake in a small text file raises in Kafka; real starts say the same (tests/interop)."""

from __future__ import annotations

import pytest

from policies.preflight.facts import KafkaFailure, Release
from policies.preflight.files import parse_kafka_name
from policies.preflight.identity import (
    Identity,
    IdentityBefore,
    check_identities,
    check_zookeeper_identities,
    parse_identity,
)
from policies.preflight.texts import leader_epochs_failure, read_offset_checkpoint, read_topic_id
from storage.names import TopicPartition

KAFKA_4 = Release(4, 3)
PROPERTIES = {"version": "1", "cluster.id": "c", "node.id": "1", "directory.id": "v3qEibE5Br9WpoYilKvjLQ"}


@pytest.mark.parametrize(
    ("text", "exception", "is_io"),
    [
        (b"garbage\n", "IOException", True),
        (b"1\n0\n", "IOException", True),
        (b"0\n5\n", "IOException", True),
        (b"0\n1\n 0 0\n", "IOException", True),
        (b"\xff\xfe", "MalformedInputException", True),
        (b"0\n1\nx 0\n", "NumberFormatException", False),
        (b"0\n-1\n", "IllegalArgumentException", False),
        (b"0\n1\n-1 0\n", "IllegalArgumentException", False),
    ],
)
def test_leader_epochs_that_do_not_parse(text: bytes, exception: str, is_io: bool) -> None:
    failure = leader_epochs_failure(text, KAFKA_4)
    assert failure
    assert (failure.exception, failure.is_io) == (exception, is_io)


@pytest.mark.parametrize("text", [b"0\n1\nx 0\n", b"0\n-1\n", b"0\nx\n"])
def test_wrong_number_is_an_error_of_the_disk_to_kafka_2(text: bytes) -> None:
    failure = leader_epochs_failure(text, Release(2, 8))
    assert failure
    assert (failure.exception, failure.is_io) == ("IOException", True)


@pytest.mark.parametrize("text", [None, b"", b"0\n", b"0\n0\n", b"0\n1\n3 5\n"])
def test_leader_epochs_that_parse(text: bytes | None) -> None:
    assert leader_epochs_failure(text, KAFKA_4) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, {}),
        (b"", {}),
        (b"0\n", {}),
        (b"0\n0\n", {}),
        (b"0\n1\na 2147483647 9223372036854775807 \n", {TopicPartition("a", (1 << 31) - 1): (1 << 63) - 1}),
        (b"0\r\n1\r\na -2147483648 -9223372036854775808", {TopicPartition("a", -(1 << 31)): -(1 << 63)}),
        (b"0\n1\na 2147483648 0\n", KafkaFailure("NumberFormatException", "'2147483648' is no number")),
        (b"0\n1\na -2147483649 0\n", KafkaFailure("NumberFormatException", "'-2147483649' is no number")),
        (b"0\n1\na 0 9223372036854775808", KafkaFailure("NumberFormatException", "'9223372036854775808' is no number")),
        (b"0\n1\na 0 -9223372036854775809",
         KafkaFailure("NumberFormatException", "'-9223372036854775809' is no number")),
        (b"0\n-1\n", KafkaFailure("IllegalArgumentException", "-1 entries")),
        (b"0\n2147483647\n", KafkaFailure("OutOfMemoryError", "2147483647 entries")),
        (b"0\n2\na 0 1\n", KafkaFailure("IOException", "2 entries are stated, and 1 are there", is_io=True)),
        (b"0\n0\na 0 1\n", KafkaFailure("IOException", "0 entries are stated, and 1 are there", is_io=True)),
        (b"0\n1\na 0\n", KafkaFailure("IOException", "malformed line 'a 0'", is_io=True)),
        (b"0\n1\na 0 1 2\n", KafkaFailure("IOException", "malformed line 'a 0 1 2'", is_io=True)),
        (b"0\n1\n\n", KafkaFailure("IOException", "malformed line ''", is_io=True)),
        (b"1\n0\n", KafkaFailure("IOException", "version 1", is_io=True)),
        (b"2147483648\n", KafkaFailure("IOException", "malformed line '2147483648'", is_io=True)),
        (b"0\nx\n", KafkaFailure("IOException", "malformed line 'x'", is_io=True)),
        (b"\xff", KafkaFailure("MalformedInputException", "not UTF-8", is_io=True)),
    ],
)  # fmt: skip
def test_offset_checkpoint_is_what_kafka_reads(
    text: bytes | None, found: dict[TopicPartition, int] | KafkaFailure
) -> None:
    assert read_offset_checkpoint(text, KAFKA_4) == found


def test_of_a_partition_that_is_stated_twice_the_last_line_counts() -> None:
    assert read_offset_checkpoint(b"0\n2\na 0 1\na 0 -5\n", KAFKA_4) == {TopicPartition("a", 0): -5}


@pytest.mark.parametrize(
    ("text", "exception", "is_io"),
    [
        (b"", "NullPointerException", False),
        (b"version: 0\n", "NullPointerException", False),
        (b"version: 0\ntopic_id: short", "IllegalArgumentException", False),
        (b"version: 0\ntopic_id: 8FgL+MjIRcGBMw212kvxIQ", "IllegalArgumentException", False),
        (b"version: 0\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ=", "IllegalArgumentException", False),
        (b"version: 0\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ===", "IllegalArgumentException", False),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "IOException", True),
        (b"version: x\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ", "IOException", True),
        (b"version: 2147483648\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ", "IOException", True),
        (b"version: -1\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ", "IOException", True),
        (b"garbage", "IOException", True),
    ],
)
def test_topic_id_that_does_not_parse(text: bytes, exception: str, is_io: bool) -> None:
    failure = read_topic_id(text).failure
    assert failure
    assert (failure.exception, failure.is_io) == (exception, is_io)


@pytest.mark.parametrize("text", ["8FgL-MjIRcGBMw212kvx_Q", "8FgL-MjIRcGBMw212kvx_Q=="])
def test_topic_id_parses_with_its_padding_or_without(text: str) -> None:
    read = read_topic_id(f"version: 0\ntopic_id: {text}\n".encode())
    assert (read.id, read.failure) == ("8FgL-MjIRcGBMw212kvx_Q", None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-b-3", TopicPartition("a-b", 3)),
        ("a-+5", TopicPartition("a", 5)),
        (f"a-0.{'0' * 32}-stray", TopicPartition("a", 0)),
        ("lost+found", None),
        ("a-0-stray", None),
        ("-1", None),
        ("a-99999999999", None),
    ],
)
def test_directory_names_as_kafka_reads_them(name: str, expected: TopicPartition | None) -> None:
    assert parse_kafka_name(name, knows_stray=True) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"version": "2"},
        {"node.id": "x"},
        {"directory.id": "short"},
        {"directory.id": "v3qE+bE5Br9WpoYilKvjLQ"},
        {"version": "x"},
    ],
    ids=str,
)
def test_meta_properties_that_kafka_does_not_read(change: dict[str, str]) -> None:
    assert isinstance(parse_identity(PROPERTIES | change), str)
    assert isinstance(parse_identity(PROPERTIES), Identity)


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        (PROPERTIES, "the directory.id is also that of /a"),
        (
            PROPERTIES | {"cluster.id": "d", "directory.id": "X3qEibE5Br9WpoYilKvjLQ"},
            "cluster.id is d, and c elsewhere",
        ),
        (
            PROPERTIES | {"node.id": "2", "directory.id": "X3qEibE5Br9WpoYilKvjLQ"},
            "the node id is 2, and 1 was expected",
        ),
        (None, "the file is missing: the log dir was not formatted"),
    ],
)
def test_meta_properties_of_two_log_dirs_that_do_not_fit(other: dict[str, str] | None, cause: str) -> None:
    found = check_identities([IdentityBefore("/a", PROPERTIES), IdentityBefore("/b", other)], 1, "/a")
    (refusal,) = found.refusals
    assert (refusal.path, refusal.failure) == ("/b/meta.properties", KafkaFailure("RuntimeException", cause))
    assert found.further == ()


OLD = {"version": "0", "broker.id": "1", "cluster.id": "c"}


def test_kafka_2_reads_the_broker_id_as_a_number() -> None:
    (refusal,) = check_zookeeper_identities([IdentityBefore("/a", OLD | {"broker.id": "x"})], 1).refusals
    assert refusal.failure == KafkaFailure("RuntimeException", "broker.id 'x' is no number")


@pytest.mark.parametrize("other", [OLD | {"directory.id": "x"}, {}, {"garbage": ""}])
def test_kafka_2_wants_the_same_lines_in_every_meta_properties(other: dict[str, str]) -> None:
    befores = [IdentityBefore("/a", OLD), IdentityBefore("/b", other), IdentityBefore("/c", OLD)]
    (refusal,) = check_zookeeper_identities(befores, 1).refusals
    exception = "InconsistentBrokerMetadataException"
    assert (refusal.path, refusal.failure.exception) == ("/b/meta.properties", exception)
    sound = [IdentityBefore("/a", OLD), IdentityBefore("/b", None), IdentityBefore("/c", OLD)]
    assert check_zookeeper_identities(sound, 1).refusals == ()


def test_kafka_2_stops_at_a_meta_properties_that_is_malformed_and_goes_on_without_one_that_it_may_not_read() -> None:
    malformed = IdentityBefore("/a", None, "a wrong escape", is_malformed=True)
    found = check_zookeeper_identities([malformed, IdentityBefore("/b", OLD)], 1)
    assert [(one.path, one.failure.exception) for one in found.refusals] == [
        ("/a/meta.properties", "IllegalArgumentException")
    ]
    found = check_zookeeper_identities([malformed._replace(is_malformed=False), IdentityBefore("/b", OLD)], 1)
    assert (found.refusals, list(found.offline)) == ((), ["/a"])
