"""``doctor`` is the one command at 3 a.m.: what the next start does, each partition once, and every byte if asked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from policies.preflight.facts import KafkaFailure, Release
from policies.preflight.start import (
    Dirs,
    LogDirStart,
    LogStart,
    PartitionFate,
    Refusal,
    Start,
    StartStep,
    StartStepKind,
    verdict_of,
)
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.metadata.metadata_encode import encode_partition
from storage.names import CLEAN_SHUTDOWN_FILE, TopicPartition
from tests.cleaner.engine.doctor.made import NOW_MS, Healthy, seen
from tests.cleaner.engine.doctor.test_shapes import (
    SHAPES,
    Damage,
    lost_end,
    lost_partition,
    padded,
    strange,
    torn,
    without_epochs,
    without_id,
)
from tests.metadata_dirs import append_metadata


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is looked at an hour after it was written."""
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)


@pytest.fixture
def healthy(tmp_path: Path) -> Healthy:
    """A log dir of a broker that the cluster metadata place every partition on."""
    made = Healthy(tmp_path / "data")
    placements = [encode_partition(topic_id, 0, 1, "A" * 22, 0) for topic_id in made.ids.values()]
    append_metadata(made.log_dir, placements)
    return made


def told(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    main(["doctor", *map(str, words)])
    return capsys.readouterr().out.splitlines()


def start_of(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    main(["doctor", "--json", *map(str, words)])
    return json.loads(capsys.readouterr().out)["start"]


@pytest.mark.parametrize(
    ("damage", "line"),
    [
        (lambda _: None, "Kafka 4.4 will start."),
        (lost_partition, "Kafka 4.4 will start; clicks-0 begins empty."),
        (without_id, "Kafka 4.4 will start; clicks-0 is set aside as -stray."),
        (torn, "Kafka 4.4 will start; clicks-0 gets records that nobody can read."),
        (strange, "Kafka 4.4 will not start: {}/lost+found: no name of a partition directory."),
    ],
)
def test_the_first_line_says_what_the_next_start_does(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], damage: Damage, line: str
) -> None:
    damage(healthy)
    text = line.format(healthy.log_dir)
    assert " ".join(" ".join(told(capsys, healthy.log_dir)).split()).startswith(text)
    assert start_of(capsys, healthy.log_dir) == {"kafka": "4.4", "starts": "not" not in line, "text": text}


def test_no_start_is_predicted_beside_a_broker_nor_of_some_topics(
    healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert start_of(capsys, healthy.log_dir, "--topic", "clicks") is None
    with LogDir(healthy.log_dir).lock(FileSystem()):
        found = start_of(capsys, healthy.log_dir)
    assert found["starts"] is None
    assert found["text"].startswith("No start is predicted: a process ")


def test_a_log_dir_without_the_cluster_metadata_sets_nothing_aside(
    healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cluster metadata may lie in another log dir of the broker."""
    shutil.rmtree(healthy.log_dir / "__cluster_metadata-0")
    assert told(capsys, healthy.log_dir)[0] == "Kafka 4.4 will start."


def test_of_what_a_start_recovers_only_the_ends_are_read_if_it_is_much(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torn(healthy)
    (healthy.log_dir / CLEAN_SHUTDOWN_FILE).unlink()
    everything = start_of(capsys, healthy.log_dir)["text"]
    assert everything == "Kafka 4.4 will start; clicks-0 loses records."
    monkeypatch.setattr("cleaner.engine.preflight.preflight.GLANCED_FILE_BYTES_MAX", 100)
    glanced = start_of(capsys, healthy.log_dir)["text"]
    assert glanced.startswith(f"{everything[:-1]}; of the ")
    assert glanced.endswith("that it recovers only the ends were read.")
    assert start_of(capsys, healthy.log_dir, "--deep")["text"] == everything


def test_each_partition_is_named_once_with_one_remedy(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    padded(healthy)
    without_epochs(healthy)
    lines = told(capsys, healthy.log_dir)
    assert [line.split()[0] for line in lines if line.startswith(("TIME_", "EPOCHS_"))] == ["TIME_INDEX_PADDED"]
    assert sum(line.startswith("  Also EPOCHS_LOST (KAFKA-20961)  leader-epoch-checkpoint: ") for line in lines) == 1
    assert sum(line.startswith("  Remedy: ") for line in lines) == 1
    assert "  Then run logcleaner doctor again: it has another remedy for what remains." not in lines
    assert sum(line.startswith("  Remedy: ") for line in told(capsys, healthy.log_dir, "-v")) == 2


def test_a_deep_look_names_a_partition_once_that_checkpoints_put_further(
    healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    lost_end(healthy)
    lines = told(capsys, healthy.log_dir, "--deep")
    assert sum(line.startswith("END_BELOW_WATERMARK") for line in lines) == 1
    assert not any(line.startswith("  Also ") for line in lines)


@pytest.mark.parametrize("damage", dict.fromkeys(damage for damage, *_ in SHAPES), ids=lambda damage: damage.__name__)
def test_a_deep_look_finds_all_that_verify_finds(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], damage: Damage
) -> None:
    damage(healthy)
    by_verify = seen(capsys, healthy.log_dir, command="verify")[1]
    by_doctor = seen(capsys, healthy.log_dir, options=("--deep",))[1]
    for found in by_doctor:
        del found["is_damage"]
    assert [one for one in by_verify if one not in by_doctor] == []
    shallow = {(one["code"], one["path"]) for one in seen(capsys, healthy.log_dir)[1]}
    assert shallow <= {(one["code"], one["path"]) for one in by_doctor}


def test_a_wrong_checksum_takes_a_deep_look(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    path = healthy.file("clicks-0", ".log")
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    assert seen(capsys, healthy.log_dir) == (0, [])
    assert (
        told(capsys, healthy.log_dir)[-1] == "Checksums were not compared: --deep reads every byte and compares them."
    )
    status, found = seen(capsys, healthy.log_dir, options=("--deep",))
    assert (status, found[0]["code"]) == (4, "BATCH_CORRUPT")
    assert told(capsys, healthy.log_dir, "--deep")[-1].startswith("Read every byte of ")


def a_log(number: int, *steps: StartStep, fate: PartitionFate = PartitionFate.SERVED) -> LogStart:
    name = TopicPartition("t", number)
    return LogStart(str(name), name, fate, steps, 0, 9, {})


def a_start(*logs: LogStart, failures: tuple[tuple[str, KafkaFailure], ...] = (), **changed: Any) -> Start:
    state = Dirs.OFFLINE if failures else Dirs.ONLINE
    return Start(Release(4, 4), (LogDirStart("/d", state, True, (), logs, failures),), (), **changed)


FULL = KafkaFailure("IOException", "no space", is_io=True)
CUT = StartStep(StartStepKind.TRUNCATE, "0.log", "torn", 5, 1, size_bytes=9)
DOOMED = [a_log(number, fate=PartitionFate.DELETED) for number in range(4)]


@pytest.mark.parametrize(
    ("start", "full", "text"),
    [
        (a_start(failures=(("cleaner-offset-checkpoint", FULL),)), (),
         "Kafka 4.4 will start; /d goes offline (cleaner-offset-checkpoint: no space)."),
        (a_start(failures=(("/d", FULL),)), (), "Kafka 4.4 will start; /d goes offline (no space)."),
        (a_start(), ("/d",), "Kafka 4.4 will not start well; the disk of /d is too full."),
        (a_start(a_log(0, CUT), *DOOMED[1:]), (),
         "Kafka 4.4 will start; t-1, t-2 and 1 more are deleted; t-0 loses records."),
        (a_start(unplaced=(TopicPartition("new", 0),)), (),
         "Kafka 4.4 will start; new-0 begins empty, like a new one."),
        (a_start()._replace(refusals=(Refusal("/d/.lock", FULL), Refusal("/e", FULL), Refusal("/f", FULL))), (),
         "Kafka 4.4 will not start: /d/.lock: no space, and 2 more."),
    ],
)  # fmt: skip
def test_verdict_on_a_start(start: Start, full: tuple[str, ...], text: str) -> None:
    assert verdict_of(start, full).text == text
