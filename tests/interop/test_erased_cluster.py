"""Three real brokers, stopped one by one, one of them killed, and keys erased on each, while clients write and read.

Consumers of Java and librdkafka, and a Streams application, reach the end of every log; groups go on where they stood;
the replicas agree; the certificates of all brokers owe nothing, and tell of a broker that was forgotten.
"""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, product
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import (
    CODECS,
    FIRST_MS,
    SECONDS_MAX,
    TRANSACTION_MS_MAX,
    Writer,
    commit_as_group,
    committed,
    consumed,
    create_topic,
    patiently,
    resumed,
)
from tests.interop.clusters import NODES, bootstrap_of, three_voters, wait_for, wait_until_in_sync
from tests.interop.java_clients import JavaClients
from tests.interop.referee import Referee
from tests.interop.test_replicas import marks
from tests.interop.tiering import ISOLATIONS
from tests.interop.verdicts import Record

pytestmark = pytest.mark.kafka

CONFIGS: Final = {
    "clicks": {"cleanup.policy": "delete", "retention.ms": "-1", "segment.ms": "5000"},
    "profiles": {"cleanup.policy": "compact", "segment.ms": "5000"},
    "counts": {"cleanup.policy": "compact"},
}
"""Producers write on into the first; the second one ends with a record that goes; Streams writes into the last."""
WRITTEN: Final = ("clicks", "profiles")
TOPICS: Final = (*CONFIGS, "tally-counted-changelog")
"""Where the keys are: also in what Streams made of them."""
ERASED: Final = ("k3", "k7")
ERASED_HEX: Final = frozenset(key.encode().hex() for key in ERASED)
LATER_MS: Final = FIRST_MS + 3_600_000
PAUSE_SECONDS: Final = 0.5
AGAIN: Final = 0
"""Names the second certificate of the first broker."""


@dataclass(slots=True)
class Rolled:
    """What was seen of a cluster that was rolled, and what is left of it.

    Attributes:
        log_dirs: of the brokers, by node, which have stopped.
        certificates: of the erasures, by node; and of the first node's second one.
        lived: what consumers read that lived all the time, by topic and isolation level.
        read: what consumers read afterwards from the start on, by client, topic and isolation level.
        stood: where each group stood, and what it read afterwards, by client.
        counts: what Streams had counted by key, and what was right, before its stores were made anew and in the end.
        rows: the keys of the global table of Streams in the end.
    """

    log_dirs: dict[int, Path]
    certificates: dict[int, Path]
    lived: dict[tuple[str, str], list[Record]] = field(default_factory=dict)
    read: dict[tuple[str, str, str], list[Record]] = field(default_factory=dict)
    stood: dict[str, tuple[int, list[Record]]] = field(default_factory=dict)
    counts: list[tuple[dict[str, int], dict[str, int]]] = field(default_factory=list)
    rows: set[str] = field(default_factory=set)


@pytest.fixture(scope="module")
def rolled(kafka: str, java_clients: JavaClients, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rolled]:
    root = tmp_path_factory.mktemp("rolled")
    with three_voters(kafka, root, QUIET) as brokers:
        found = Rolled(
            {node: broker.log_dir for node, broker in brokers.items()},
            {node: root / f"certificate-{node}.json" for node in (*NODES, AGAIN)},
        )
        bootstrap = bootstrap_of(brokers)
        fill(bootstrap)
        for topic, isolation in product(("clicks", "profiles"), ISOLATIONS):
            java_clients.follow(bootstrap, topic, isolation)
        java_clients.start_streams(bootstrap, "clicks", "profiles", "counts", root / "state")
        stand(found, bootstrap)
        java_clients.await_streams(bootstrap, "clicks")
        wait_until_in_sync(bootstrap)
        with writing(bootstrap):
            transaction = opened(bootstrap)
            erase(brokers[1], found, found.certificates[1], ExitStatus.WORK_TO_DO)
            wait_until_in_sync(bootstrap)
            patiently(transaction.commit_transaction)
            java_clients.await_streams(bootstrap, "clicks")  # it counts the keys once more
            erase(brokers[2], found, found.certificates[2])
            wait_until_in_sync(bootstrap)
            erase(brokers[3], found, found.certificates[3], by_kill=True)
            wait_until_in_sync(bootstrap)
            erase(brokers[1], found, found.certificates[AGAIN])
            wait_until_in_sync(bootstrap)
        see(found, bootstrap, java_clients, root)
        for topic in TOPICS:  # the last broker cannot stop by itself: it asks a quorum that is gone
            wait_for(lambda topic=topic: len({marks(path, topic) for path in found.log_dirs.values()}) == 1)
    yield found
    shutil.rmtree(root)


def fill(bootstrap: str) -> None:
    """Write records of all kinds into topics of three replicas; the last record of one topic is to go."""
    writer = Writer(bootstrap, random.Random(40), repeats=4)
    for topic, config in CONFIGS.items():
        create_topic(bootstrap, topic, config, [list(NODES)])
    for topic in ("clicks", "profiles"):
        for codec in CODECS:
            writer.send(writer.producer(compression_type=codec, enable_idempotence=True), topic, 15)
            writer.transactions(topic, f"{codec} into {topic}", [True, False])
        writer.send(writer.producer(), topic, 20)
    last = writer.producer()
    last.produce("profiles", key=ERASED[0], value="the last one", timestamp=writer.now_ms)
    assert last.flush(SECONDS_MAX) == 0


def stand(found: Rolled, bootstrap: str) -> None:
    """Have groups stand at a record that goes."""
    goes = [r.offset for r in consumed(bootstrap, "clicks", 0, "read_committed") if is_erased(r)]
    for client in ("java", "librdkafka"):
        found.stood[client] = (goes[len(goes) // 2], [])
        commit_as_group(bootstrap, f"readers by {client}", "clicks", [goes[len(goes) // 2]])


@contextmanager
def writing(bootstrap: str) -> Iterator[None]:
    """Write records of other keys all the while, in transactions and without."""
    ends, failures = threading.Event(), list[BaseException]()

    def write() -> None:
        writer = Writer(bootstrap, random.Random(41), LATER_MS, repeats=4, prefix="later")
        try:
            for number in count():
                if ends.is_set():
                    return
                codec = CODECS[number % len(CODECS)]
                writer.send(writer.producer(compression_type=codec, enable_idempotence=True), "clicks", 5)
                writer.transactions("clicks", f"later {number % 2}", [number % 3 != 0])
                ends.wait(PAUSE_SECONDS)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
    assert not failures, failures


def opened(bootstrap: str) -> Producer:
    """Begin a transaction with a record that is to go, and leave it open."""
    writer = Writer(bootstrap, random.Random(44), LATER_MS)
    producer = writer.producer(transactional_id="open", transaction_timeout_ms=TRANSACTION_MS_MAX)
    patiently(producer.init_transactions)
    producer.begin_transaction()
    for key in (*ERASED, "other"):
        producer.produce("clicks", key=key, value="in an open transaction", timestamp=LATER_MS)
    assert producer.flush(SECONDS_MAX) == 0
    return producer


def erase(
    broker: Broker,
    found: Rolled,
    certificate: Path,
    expected: ExitStatus = ExitStatus.DONE,
    *,
    by_kill: bool = False,
) -> None:
    """Stop a broker, erase the keys in its log dir, and start it."""
    keys = certificate.with_name("keys.txt")
    keys.write_text("".join(f"{key}\n" for key in ERASED))
    command = ["erase", "--keys", str(keys), "--yes", "--certificate", str(certificate)]
    command += [word for topic in TOPICS for word in ("--topic", topic)]
    command += [] if certificate == found.certificates[1] else ["--secret", f"{found.certificates[1]}.secret"]
    broker.kill() if by_kill else broker.stop()
    assert main([*command, "--log-dir", str(broker.log_dir)]) == expected
    broker.launch()
    broker.wait_until_it_serves()


def see(found: Rolled, bootstrap: str, java_clients: JavaClients, root: Path) -> None:
    """Read everything, by every client, and have Streams make its stores anew."""
    for topic, isolation in product(WRITTEN, ISOLATIONS):
        found.lived[topic, isolation] = java_clients.followed(bootstrap, topic, isolation)
        found.read["java", topic, isolation] = java_clients.consumed(bootstrap, topic, isolation)
        found.read["librdkafka", topic, isolation] = consumed(bootstrap, topic, 0, isolation)
    for client, reads_on in (("java", java_clients.resumed), ("librdkafka", resumed)):
        group = f"readers by {client}"
        assert committed(bootstrap, group, "clicks") == found.stood[client][0]
        found.stood[client] = (found.stood[client][0], reads_on(bootstrap, "clicks", "read_committed", group))
    lived = found.lived["clicks", "read_committed"]
    counts, _ = java_clients.stop_streams(bootstrap, "clicks")
    found.counts.append((counts, counted(lived)))
    java_clients.start_streams(bootstrap, "clicks", "profiles", "counts", root / "state anew")
    writer = Writer(bootstrap, random.Random(42), 2 * LATER_MS - FIRST_MS, prefix="later")
    writer.send(writer.producer(), "clicks", 30)
    counts, found.rows = java_clients.stop_streams(bootstrap, "clicks")
    found.counts.append((counts, counted([*lived, *consumed(bootstrap, "clicks", 0, "read_committed")[-30:]])))


def counted(records: Sequence[Record]) -> Counter[str]:
    """Count the records of each key that have a value, as Streams does."""
    return Counter(bytes.fromhex(record.key).decode() for record in records if record.key and record.value)


def is_erased(record: Record) -> bool:
    return record.key in ERASED_HEX and record.value is not None


def asked(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    """Run a command, and return its exit status and its document."""
    capsys.readouterr()
    status = main([*map(str, words), "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("topic", WRITTEN)
def test_every_client_reaches_the_end_and_reads_exactly_the_others(rolled: Rolled, topic: str, isolation: str) -> None:
    lived = rolled.lived[topic, isolation]
    offsets = [record.offset for record in lived]
    assert offsets == sorted({*offsets}), "a consumer that lived all the time read twice"
    others = [record for record in lived if not is_erased(record)]
    assert len(others) < len(lived)
    for client in ("java", "librdkafka"):
        assert rolled.read[client, topic, isolation] == others


def test_groups_resume_where_they_stood(rolled: Rolled) -> None:
    for client, (stood, then) in rolled.stood.items():
        read = rolled.read[client, "clicks", "read_committed"]
        assert then == [record for record in read if record.offset >= stood]
        assert then


def test_streams_counts_on_and_makes_its_stores_anew(rolled: Rolled) -> None:
    for counts, expected in rolled.counts:
        assert {key: counts[key] for key in counts if key not in ERASED} == {
            key: expected[key] for key in expected if key not in ERASED
        }
    latest = {r.key: r for r in rolled.read["java", "profiles", "read_committed"] if r.key}
    assert rolled.rows == {bytes.fromhex(key).decode() for key, record in latest.items() if record.value}
    assert not rolled.rows & {*ERASED}


def test_the_replicas_agree(rolled: Rolled, referee: Referee, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = asked(capsys, "diff", "--replicas", *rolled.log_dirs.values())
    assert (status, [p for p in document["partitions"] if p["divergence"] or p["errors"]]) == (ExitStatus.DONE, [])
    copies = [log_dir.with_name(f"{log_dir.name}-read") for log_dir in rolled.log_dirs.values()]
    for log_dir, copied in zip(rolled.log_dirs.values(), copies, strict=True):
        shutil.copytree(log_dir, copied, ignore=shutil.ignore_patterns("__*"))
    for topic in TOPICS:
        partitions = [copied / f"{topic}-0" for copied in copies]
        one, *others = referee.read(partitions, checkpoints=True)
        records = list(one.records())
        assert records
        assert not any(is_erased(record) for batch in one.batches() if not batch.control for record in batch.records)
        assert all(list(other.records()) == records for other in others)


def test_the_certificates_owe_nothing_and_tell_of_a_forgotten_broker(
    rolled: Rolled, capsys: pytest.CaptureFixture[str]
) -> None:
    for node, path in rolled.certificates.items():
        certified = {one["topic"]: one for one in json.loads(path.read_text())["partitions"]}
        assert {*certified} == {*TOPICS}
        assert all(sorted(one["replicas"]) == [*NODES] for one in certified.values())
        assert all(one["records"] for one in certified.values())
        assert {topic: one["outcome"] for topic, one in certified.items()} == {
            topic: "STAYS" if (node, topic) == (1, "clicks") else "ERASED" for topic in TOPICS
        }
    status, owed = pending(rolled, capsys, *rolled.certificates)
    assert (status, owed) == (ExitStatus.DONE, set())
    status, owed = pending(rolled, capsys, *NODES)
    assert (status, owed) == (ExitStatus.WORK_TO_DO, {("clicks", 1, "STAYS")})
    for forgotten in NODES[1:]:
        status, owed = pending(rolled, capsys, *(node for node in rolled.certificates if node != forgotten))
        assert (status, owed) == (ExitStatus.WORK_TO_DO, {*product(TOPICS, [forgotten], ["OWED"])})
    status, owed = pending(rolled, capsys, 2, 3)
    assert (status, owed) == (ExitStatus.WORK_TO_DO, {*product(TOPICS, [1], ["OWED"])})


def pending(rolled: Rolled, capsys: pytest.CaptureFixture[str], *names: int) -> tuple[int, set[tuple[str, int, str]]]:
    """Lay some certificates side by side: each replica is named, and those that are owed are returned."""
    status, document = asked(capsys, "erase", "--pending", *(rolled.certificates[name] for name in names))
    replicas = {(one["topic"], one["node_id"], one["state"]) for one in document["replicas"]}
    assert {one[:2] for one in replicas} == {*product(TOPICS, NODES)}
    owed = {one for one in replicas if one[2] != "ERASED"}
    assert document["pending"] == bool(owed)
    return status, owed


def test_no_value_of_the_keys_is_found(rolled: Rolled, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("".join(f"{key}\n" for key in ERASED))
    status, document = asked(capsys, "prove-erased", "--keys", keys, "--log-dir", *rolled.log_dirs.values())
    assert status == ExitStatus.WORK_TO_DO, "tombstones are left"
    assert document["is_complete"]
    assert not any(found["values"] for file in document["files"] for found in file["found"])


def test_a_flipped_bit_is_found(rolled: Rolled, capsys: pytest.CaptureFixture[str]) -> None:
    dice = random.Random(43)
    for path in rolled.certificates.values():
        status, document = asked(capsys, "erase", "--check", path)
        assert (status, document["wrong"]) == (ExitStatus.DONE, False), [
            one for one in document["files"] if one["state"] not in ("AS_CERTIFIED", "GROWN")
        ]
        sealed = [
            Path(one["path"]) for one in document["files"] if one["state"] == "AS_CERTIFIED" and "clicks" in one["path"]
        ]
        flipped = dice.choice([one for one in sealed if one.stat().st_size])
        data = flipped.read_bytes()
        place = dice.randrange(len(data))
        with flipped.open("r+b") as file:
            file.seek(place)
            file.write(bytes([data[place] ^ 1 << dice.randrange(8)]))
        status, document = asked(capsys, "erase", "--check", path)
        assert (status, document["wrong"]) == (ExitStatus.DAMAGED, True)
        assert [one["path"] for one in document["files"] if one["state"] == "DIFFERS"] == [str(flipped)]
        with flipped.open("r+b") as file:
            file.write(data)
