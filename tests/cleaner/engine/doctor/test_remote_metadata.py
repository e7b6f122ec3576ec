"""``__remote_log_metadata`` that does not add up: uploads and deletions without an end, events without their first."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.engine.doctor.examining import remote_metadata
from storage.log.listing import list_partition
from storage.records import Record
from tests.cleaner.engine.doctor.made import HOUR_MS, NOW_MS, Healthy, seen
from tests.tier_samples import SAMPLES, TierSamples

TOPIC = "__remote_log_metadata-0"
COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)


def segment_id(number: int) -> bytes:
    """The struct RemoteLogSegmentIdEntry: topic, its id, partition, and the id of the segment."""
    name = b"tiered"
    return bytes([len(name) + 1]) + name + b"T" * 16 + struct.pack(">ib", 0, 0) + bytes([number]) * 16 + b"\0"


def begun(number: int, time_ms: int) -> bytes:
    """The event that an upload begins."""
    fields = struct.pack(">qqiqq", 0, 9, 1, time_ms, time_ms) + b"\x02" + struct.pack(">iqb", 0, 0, 0)
    return b"\1\0\0" + segment_id(number) + fields + struct.pack(">ibbb", 1000, 0, COPY_STARTED, 0)


def went_on(number: int, state: int, time_ms: int) -> bytes:
    """An event that changes the state of a segment."""
    return b"\1\1\0" + segment_id(number) + struct.pack(">iqbbb", 1, time_ms, 0, state, 0)


def written(healthy: Healthy, *events: bytes) -> Path:
    with healthy.log_of(TOPIC) as log:
        records = [Record(0, NOW_MS, None, event) for event in events]
        log.append_records(records, now_ms=NOW_MS, leader_epoch=2)
    healthy.stopped()
    return healthy.log_dir


def test_metadata_that_a_real_broker_wrote_are_understood_and_sound(tiers: TierSamples) -> None:
    for name in SAMPLES:
        directories = list(tiers[name].log_dir.glob("__remote_log_metadata-*"))
        found = [remote_metadata(str(path), list_partition(path).segments, 0, 1 << 62) for path in directories]
        assert sum(one.segments for one in found) > 0
        assert all(one.copies == () for one in found)
        assert sum(one.tiered.segments for one in found) == len(list(tiers[name].tier.rglob("*.log")))


def test_doctor_says_what_is_tiered(tiers: TierSamples, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", str(tiers["local"].log_dir), "--no-pager"])
    assert "Tiered, by __remote_log_metadata: 42 segments (" in capsys.readouterr().out
    main(["doctor", str(tiers["local"].log_dir), "--json"])
    tiered = json.loads(capsys.readouterr().out)["tiered"]
    assert (tiered["partitions"], tiered["segments"], tiered["unfinished"]) == (3, 42, 0)


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Healthy:
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)
    return Healthy(tmp_path / "data")


OLD_MS = NOW_MS - 5 * HOUR_MS


@pytest.mark.parametrize(
    ("events", "issue", "told"),
    [
        ([begun(1, OLD_MS)], "KAFKA-17062", "began to be uploaded"),
        (
            [begun(1, OLD_MS), went_on(1, COPY_FINISHED, OLD_MS), went_on(1, DELETE_STARTED, OLD_MS)],
            "KAFKA-16511",
            "began to be deleted",
        ),
        ([went_on(1, COPY_FINISHED, OLD_MS)], "KAFKA-15632", "without the first one"),
    ],
)
def test_segment_that_does_not_add_up_is_named(healthy, capsys, events: list[bytes], issue: str, told: str) -> None:
    status, (finding,) = seen(capsys, written(healthy, *events))
    assert (status, finding["code"], finding["kafka_issue"]) == (0, "REMOTE_METADATA", issue)
    assert told in finding["text"]
    assert "tiered-0" in finding["text"]


def test_events_of_a_later_kafka_say_nothing(healthy, capsys) -> None:
    later = bytearray(went_on(1, COPY_FINISHED, OLD_MS))
    later[2] = 9
    assert seen(capsys, written(healthy, begun(1, OLD_MS), bytes(later))) == (0, [])


def test_segments_that_add_up_are_none(healthy, capsys) -> None:
    events = [
        *(begun(1, OLD_MS), went_on(1, COPY_FINISHED, OLD_MS)),
        *(begun(2, OLD_MS), went_on(2, COPY_FINISHED, OLD_MS)),
        *(went_on(2, DELETE_STARTED, OLD_MS), went_on(2, DELETE_FINISHED, OLD_MS)),
        begun(3, NOW_MS - HOUR_MS // 2),
        *(b"", b"\0", b"\7", begun(4, OLD_MS)[:40]),
    ]
    assert seen(capsys, written(healthy, *events)) == (0, [])
