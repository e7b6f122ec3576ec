"""A real broker and real clients: what they wrote is cleaned by us, and the broker goes on with what we left."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.interop import clients
from tests.interop.broker import BUSY, QUIET, Broker
from tests.interop.clients import CODECS, Writer
from tests.interop.referee import Referee
from tests.interop.sides import Side, copy, differences, files_of, side, untouched
from tests.interop.verdicts import Record
from tests.spark.tables import read

pytestmark = pytest.mark.kafka

COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
TOPICS: Final = {
    "codecs": COMPACTED,
    "idempotent": COMPACTED,
    "transactions": COMPACTED,
    "left-open": COMPACTED,
    "stamped": {**COMPACTED, "message.timestamp.type": "LogAppendTime"},
    "big": COMPACTED,
    "trimmed": {**COMPACTED, "cleanup.policy": "compact,delete", "retention.ms": "-1"},
    "expired": {"cleanup.policy": "delete", "retention.ms": "1000"},
    "sized": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "3000"},
}
INTERNAL: Final = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
PARTITIONS: Final = {
    **{f"{topic}-0": config for topic, config in TOPICS.items()},
    **{f"{topic}-{number}": INTERNAL for topic in ("__consumer_offsets", "__transaction_state") for number in (0, 1)},
}
TRIMMED_BEFORE: Final = 7
CHANGING: Final = (
    ("clean",),
    ("clean", "--force-lock", "--yes"),
    ("free", "--target", "100%"),
    ("restore", "--all"),
    ("restore", "--all", "--release"),
)
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
CLI_SECONDS_MAX: Final = 240
CLEANER_SECONDS_MAX: Final = 240


@dataclass(frozen=True, slots=True)
class Cleaned:
    """Two copies of what the broker left: ours, cleaned by the command, and what Kafka made of the other."""

    ours: Path
    said: dict[str, Any]
    differences: dict[str, list[str]]
    kafka: dict[str, Side]


@dataclass(frozen=True, slots=True)
class Serving:
    """The broker on our result, and what it said when it was to start while we held the lock."""

    broker: Broker
    refusal: str


@pytest.fixture(scope="module")
def written(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir written in two lives of a broker, so that leader epochs change, and stopped cleanly."""
    log_dir = tmp_path_factory.mktemp("broker") / "written"
    broker = Broker(kafka, log_dir, QUIET)
    writer = Writer(broker.bootstrap, random.Random(5))
    with broker:
        clients.create_topics(broker.bootstrap, TOPICS)
        write(writer, "first")
        client = leave_open(writer)
    del client  # not before the broker has stopped: its end would abort the transaction
    with broker:
        write(writer, "second")
        clients.delete_records(broker.bootstrap, "trimmed", TRIMMED_BEFORE)
    return log_dir


def write(writer: Writer, life: str) -> None:
    for codec in CODECS:
        writer.send(writer.producer(compression_type=codec), "codecs", 12)
    for topic in ("stamped", "big", "trimmed", "expired", "sized"):
        writer.send(writer.producer(), topic, 30)
    writer.send_big("big")
    writer.send(writer.producer(enable_idempotence=True), "idempotent", 30)
    writer.transactions("transactions", f"ends-{life}", [True, False, True, False])
    writer.send(writer.producer(), "transactions", 12)
    clients.commit_as_group(writer.bootstrap, f"group-{life}", "codecs")


def leave_open(writer: Writer) -> Any:
    """A transaction that nobody ends, behind one that was committed; gives its client, to be kept alive."""
    client = writer.transactions("left-open", "open", [True, False, True])
    client.begin_transaction()
    writer.send(client, "left-open", 6)
    writer.send(writer.producer(), "left-open", 12)
    return client


def logcleaner(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, as a process."""
    command = [sys.executable, "-m", "cleaner", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=CLI_SECONDS_MAX, check=False)


@pytest.fixture(scope="module")
def cleaned(referee: Referee, written: Path) -> Cleaned:
    """Ours by the command with the topics' own configuration, at its default moment; Kafka's at the same."""
    # A starting broker takes away what is stray: then what is missing afterwards was taken away by the round.
    referee.read([written / name for name in PARTITIONS], checkpoints=True, batches_only=True)
    ours, theirs = copy(written, "ours"), copy(written, "theirs")
    before = {name: files_of(ours / name) for name in PARTITIONS}
    done = logcleaner("clean", "--log-dir", str(ours), "--delete-delay", "0", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    opened = copy(ours, "opened")
    kafka, found = {}, {}
    for name, config in PARTITIONS.items():
        wanted = {"segment.bytes": str(1 << 30), **config, "min.cleanable.dirty.ratio": "0.01"}
        clean_as_broker(referee, theirs / name, wanted, said["now"])
        kafka[name] = side(referee, theirs / name, said["now"], wanted)
        own = side(referee, opened / name, said["now"], wanted)
        as_before = untouched(before[name], own.files)
        found[name] = list(differences(kafka[name], own, as_before))
    return Cleaned(ours, said, found, kafka)


def clean_as_broker(referee: Referee, directory: Path, config: dict[str, str], now_ms: int) -> None:
    if "compact" in config["cleanup.policy"]:
        referee.clean([directory], config=config, now_ms=now_ms, checkpoints=True, expires=True)
    else:
        referee.expire([directory], config, now_ms=now_ms, checkpoints=True)


@pytest.fixture(scope="module")
def serving(kafka: str, cleaned: Cleaned) -> Iterator[Serving]:
    """The broker started on our result; before that it was to start while the log dir was locked."""
    broker = Broker(kafka, cleaned.ours, QUIET)
    with LogDir.open(cleaned.ours).lock(FileSystem()):
        broker.launch()
        refusal = broker.wait_for_refusal()
    with broker:
        yield Serving(broker, refusal)


@pytest.fixture(scope="module")
def consumed(serving: Serving) -> dict[tuple[str, str], list[Record]]:
    """What consumers read of the broker, by partition and isolation level."""
    found = {}
    for name, isolation in product(PARTITIONS, ISOLATIONS):
        topic, _, number = name.rpartition("-")
        found[name, isolation] = clients.consumed(serving.broker.bootstrap, topic, int(number), isolation)
    return found


@dataclass(frozen=True, slots=True)
class Copied:
    """A cleaned copy of what the broker left, a broker on it, and what we read there before that started."""

    broker: Broker
    original: Path
    log_dir: Path
    rows: dict[tuple[str, str], list[dict[str, Any]]]
    """By partition and isolation level."""


@pytest.fixture(scope="module")
def copied(kafka: str, written: Path) -> Iterator[Copied]:
    """The broker started on the copy as it is: nothing is added to it."""
    log_dir = written.with_name("copied")
    done = logcleaner("clean", "--log-dir", str(written), "--output", str(log_dir), "--yes")
    assert done.returncode == 0, done.stderr
    rows = {
        (name, isolation): read(log_dir / name, **{"isolation.level": isolation})
        for name in PARTITIONS
        for isolation in ISOLATIONS
    }
    assert (log_dir / "meta.properties").exists()  # else the broker would be given a new one
    with Broker(kafka, log_dir, QUIET) as broker:
        yield Copied(broker, written, log_dir, rows)
    assert broker.errors() == []


@pytest.mark.parametrize("partition", PARTITIONS)
def test_partition_equals_what_kafkas_cleaner_leaves(cleaned: Cleaned, partition: str) -> None:
    assert not cleaned.differences[partition], "\n".join(cleaned.differences[partition])


def test_every_partition_had_something_to_lose(cleaned: Cleaned) -> None:
    changed = {f"{p['topic']}-{p['partition']}" for p in cleaned.said["partitions"] if p["result"]}
    assert changed >= {f"{topic}-0" for topic in TOPICS}
    assert any(name.startswith("__consumer_offsets") for name in changed)


def test_broker_does_not_start_while_we_hold_the_lock_and_does_right_after(serving: Serving) -> None:
    assert "Failed to acquire lock on file .lock" in serving.refusal


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_consumer_reads_what_kafkas_cleaner_leaves(
    consumed: dict[tuple[str, str], list[Record]], cleaned: Cleaned, partition: str, isolation: str
) -> None:
    assert consumed[partition, isolation] == clients.visible(cleaned.kafka[partition].log, isolation)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_consumer_reads_what_the_spark_source_reads_beside_the_broker(
    consumed: dict[tuple[str, str], list[Record]], cleaned: Cleaned, partition: str, isolation: str
) -> None:
    topic, _, number = partition.rpartition("-")
    rows = read(cleaned.ours / partition, **{"isolation.level": isolation})
    assert {(row["topic"], row["partition"]) for row in rows} <= {(topic, int(number))}
    assert [clients.record_of(row) for row in rows] == consumed[partition, isolation]


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_consumer_reads_from_a_cleaned_copy_what_we_read_there(copied: Copied, partition: str, isolation: str) -> None:
    topic, _, number = partition.rpartition("-")
    of_broker = clients.consumed(copied.broker.bootstrap, topic, int(number), isolation)
    assert of_broker == [clients.record_of(row) for row in copied.rows[partition, isolation]]


@pytest.mark.parametrize("topic", TOPICS)
def test_cleaned_copy_has_less_than_the_original(copied: Copied, topic: str) -> None:
    before = read(copied.original / f"{topic}-0")
    assert len(copied.rows[f"{topic}-0", "read_uncommitted"]) < len(before)


@pytest.mark.parametrize("topic", TOPICS)
def test_broker_reports_the_offsets_that_kafkas_own_retention_leaves(
    serving: Serving, cleaned: Cleaned, topic: str
) -> None:
    log = cleaned.kafka[f"{topic}-0"].log
    assert clients.watermarks(serving.broker.bootstrap, topic) == (log.log_start_offset, log.log_end_offset)


def test_retention_and_delete_records_moved_log_starts(cleaned: Cleaned) -> None:
    starts = {name: cleaned.kafka[name].log for name in ("expired-0", "sized-0", "trimmed-0")}
    assert starts["expired-0"].log_start_offset == starts["expired-0"].log_end_offset > 0
    assert 0 < starts["sized-0"].log_start_offset < starts["sized-0"].log_end_offset
    assert starts["trimmed-0"].log_start_offset == TRIMMED_BEFORE


@pytest.mark.parametrize("command", CHANGING, ids=" ".join)
def test_command_that_changes_things_is_refused_while_the_broker_runs(
    command: tuple[str, ...],
    serving: Serving,
    cleaned: Cleaned,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cleaner.cli.waiting.WAIT_SECONDS", 0.0)  # the broker stays
    names = [name for name in PARTITIONS if not name.startswith("__")]
    before = {name: files_of(cleaned.ours / name) for name in names}
    beside = names_beside(cleaned.ours)
    assert main([*command, "--log-dir", str(cleaned.ours)]) == ExitStatus.LOCKED
    assert f"held by process {serving.broker.pid}" in capsys.readouterr().err
    assert {name: files_of(cleaned.ours / name) for name in names} == before
    assert names_beside(cleaned.ours) == beside


def names_beside(log_dir: Path) -> set[str]:
    """What lies in a log dir, but for the checkpoints that the broker is just writing."""
    return {path.name for path in log_dir.iterdir() if path.suffix != ".tmp"}


def test_plan_and_topics_are_told_while_the_broker_runs(serving: Serving, cleaned: Cleaned) -> None:
    planned = logcleaner("clean", "--dry-run", "--json", "--log-dir", str(cleaned.ours))
    listed = logcleaner("topics", "--json", "--log-dir", str(cleaned.ours))
    assert (planned.returncode, listed.returncode) == (0, 0), planned.stderr + listed.stderr
    for told in (json.loads(planned.stdout), json.loads(listed.stdout)):
        assert set(TOPICS) <= {partition["topic"] for partition in told["partitions"]}


def test_broker_goes_on_producing_and_cleaning(serving: Serving, cleaned: Cleaned) -> None:
    serving.broker.stop()
    before = cleaner_checkpoint(cleaned.ours)
    with Broker(serving.broker.classpath, cleaned.ours, BUSY) as broker:
        writer = Writer(broker.bootstrap, random.Random(6), clients.FIRST_MS + 10_000_000)
        write(writer, "third")
        looks = wait_for_its_cleaner(cleaned.ours, before)
        latest = {record.key: record for record in clients.consumed(broker.bootstrap, "codecs", 0, ISOLATIONS[1])}
        assert len(latest) == 12
    assert [look.returncode for look in looks] == [0] * len(looks), [look.stderr for look in looks]
    assert broker.errors() == []
    assert (cleaned.ours / ".kafka_cleanshutdown").exists()


def wait_for_its_cleaner(log_dir: Path, before: dict[str, int]) -> list[subprocess.CompletedProcess[str]]:
    """Until the broker's own cleaner has moved on in every topic that is compacted and has no open transaction; gives
    what our dry runs and lists said of files that it wrote, swapped and deleted meanwhile."""
    looks = []
    compacted = [t for t, config in TOPICS.items() if "compact" in config["cleanup.policy"] and t != "left-open"]
    deadline = time.monotonic() + CLEANER_SECONDS_MAX
    while time.monotonic() < deadline:
        looks.append(logcleaner("clean", "--dry-run", "--exact", "--log-dir", str(log_dir)))
        looks.append(logcleaner("topics", "--log-dir", str(log_dir)))
        now = cleaner_checkpoint(log_dir)
        if all(now.get(topic, 0) > before.get(topic, 0) for topic in compacted):
            return looks
    raise TimeoutError(f"{before} -> {cleaner_checkpoint(log_dir)}")


def cleaner_checkpoint(log_dir: Path) -> dict[str, int]:
    lines = (log_dir / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    return {topic: int(offset) for topic, partition, offset in map(str.split, lines) if partition == "0"}
