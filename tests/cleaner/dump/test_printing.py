"""The kernels and their readable twins print the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cleaner.dump import logs, printing
from cleaner.dump.decoding import java_text, remote_log_text
from cleaner.dump.dumping import dump
from cleaner.dump.files import recognised
from cleaner.dump.options import DumpOptions, Redaction
from storage.errors import InvalidRecord, LogCleanerError
from storage.scan.selected import RecordSelection
from tests.cleaner.dump.batches import random_log, random_text
from tests.conftest import Samples

Dump = Callable[..., tuple[bytes, list[str], list[str]]]
ALL_PARTS = DumpOptions(print_data_log=True)
OPTIONS = {
    "batches": DumpOptions(),
    "records": DumpOptions(deep_iteration=True),
    "contents": ALL_PARTS,
    "no metadata": DumpOptions(print_data_log=True, skip_record_metadata=True),
    "no metadata, no contents": DumpOptions(deep_iteration=True, skip_record_metadata=True),
    "redacted": DumpOptions(print_data_log=True, redact=frozenset(Redaction)),
    "no values": DumpOptions(print_data_log=True, redact=frozenset({Redaction.VALUES})),
    "offsets": DumpOptions(print_data_log=True, selection=RecordSelection(1_000, 3_333)),
    "times": DumpOptions(deep_iteration=True, selection=RecordSelection(since_ms=0, until_ms=1_700_000_000_000)),
    "a key": DumpOptions(selection=RecordSelection(key=b"k")),
    "an empty key": DumpOptions(selection=RecordSelection(key=b"")),
    "batches with a key": DumpOptions(only_batches=True, selection=RecordSelection(key=b"k")),
    "nothing": DumpOptions(print_data_log=True, selection=RecordSelection(key=b"there is none")),
}


@pytest.fixture
def dumped(tmp_path: Path) -> Dump:
    def show(data: bytes, options: DumpOptions, *, as_json: bool) -> tuple[bytes, list[str], list[str]]:
        path = tmp_path / f"{0:020d}.log"
        path.write_bytes(data)
        file, out, failures = recognised(path), bytearray(), list[str]()
        assert file is not None

        def failed(error: LogCleanerError) -> None:
            failures.append(str(error))

        told = dump([file], options, out.extend, failed, as_json=as_json)
        return bytes(out), failures, told

    return show


def readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Python print every record."""
    monkeypatch.setattr(logs, "may_print", lambda _: False)


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", OPTIONS)
def test_random_logs_print_the_same(name: str, as_json: bool, dumped: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [random_log(seed, 40) for seed in range(4)]
    by_kernels = [dumped(one, OPTIONS[name], as_json=as_json) for one in data]
    readable(monkeypatch)
    assert [dumped(one, OPTIONS[name], as_json=as_json) for one in data] == by_kernels
    assert all(failures == [] for _, failures, _ in by_kernels)
    assert name == "nothing" or sum(out.count(b"\n") for out, _, _ in by_kernels) > 20


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_small_buffer_grows_for_a_large_record(as_json: bool, dumped: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_log(5, 40)
    whole = dumped(data, ALL_PARTS, as_json=as_json)
    monkeypatch.setattr(printing, "OUT_BYTES", 64)
    assert dumped(data, ALL_PARTS, as_json=as_json) == whole


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_damaged_logs_print_the_same_and_never_crash(
    as_json: bool, dumped: Dump, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, trials = random.Random(3), []
    for seed in range(60):
        data = bytearray(random_log(seed, 12))
        for _ in range(source.randint(1, 6)):
            data[source.randrange(len(data))] = source.choice((0, 0x7F, 0x80, 0xFF, source.randrange(256)))
        trials.append(bytes(data[: source.randint(1, len(data))]))
    by_kernels = [dumped(one, ALL_PARTS, as_json=as_json) for one in trials]
    readable(monkeypatch)
    assert [dumped(one, ALL_PARTS, as_json=as_json) for one in trials] == by_kernels
    assert sum(bool(failures) for _, failures, _ in by_kernels) > 10


def test_samples_print_the_same(samples: Samples, old_samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [recognised(path) for root in (samples.root, old_samples.root) for path in sorted(root.rglob("*.log"))]
    wanted = [file for file in files if file is not None and file.path.stat().st_size < 400_000]

    def printed(as_json: bool) -> bytes:
        out = bytearray()
        dump(wanted, ALL_PARTS, out.extend, lambda _: None, as_json=as_json)
        return bytes(out)

    by_kernels = printed(as_json=False), printed(as_json=True)
    readable(monkeypatch)
    assert (printed(as_json=False), printed(as_json=True)) == by_kernels
    assert by_kernels[0].count(b"\n") > 10_000


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("é漢\U0001f600".encode(), "é漢\U0001f600"),
        (b"\xed\xa0\x80", "�"),  # a surrogate: one for three bytes
        (b"\xe2\x82", "�"),  # cut short: one
        (b"\xe2\x82A", "�A"),
        (b"\xf0\x9f\x98", "�"),
        (b"\xf0\x9fA", "�A"),
        (b"\xf5\x80\x80\x80", "����"),
        (b"\xc0\x80", "��"),
        (b"\xe0\x80\x80", "���"),
    ],
)
def test_java_text(data: bytes, text: str) -> None:
    assert java_text(data) == text


TOPIC = {"id": "AQ", "name": "orders", "partition": 3}
SEGMENT = {"topicIdPartition": TOPIC, "id": "Ag"}
COPIED = {
    "segmentLeaderEpochs": [{"leaderEpoch": 2, "offset": 9}, {"leaderEpoch": 1, "offset": 0}],
    "segmentSizeInBytes": 8, "customMetadata": b"abc", "remoteLogSegmentState": 1, "txnIndexEmpty": True,
}  # fmt: skip
EVENT = {"brokerId": 1, "eventTimestampMs": 6}
EXTENT = {"startOffset": 0, "endOffset": 19, "maxTimestampMs": 5}
SEGMENT_TOLD = "RemoteLogSegmentId{topicIdPartition=AQ:orders-3, id=Ag}"
COPIED_TOLD = (
    "segmentLeaderEpochs={1=0, 2=9}, segmentSizeInBytes=8, customMetadata=Optional[CustomMetadata{3 bytes}], "
    "state=COPY_SEGMENT_FINISHED, txnIdxEmpty=true"
)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        (
            "RemoteLogSegmentMetadataRecord",
            {"remoteLogSegmentId": SEGMENT, **EXTENT, **EVENT, **COPIED},
            f"RemoteLogSegmentMetadata{{remoteLogSegmentId={SEGMENT_TOLD}, startOffset=0, endOffset=19, brokerId=1, "
            f"maxTimestampMs=5, eventTimestampMs=6, {COPIED_TOLD}}}",
        ),
        (
            "RemoteLogSegmentMetadataUpdateRecord",
            {"remoteLogSegmentId": SEGMENT, "customMetadata": None, "remoteLogSegmentState": 3, **EVENT},
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={SEGMENT_TOLD}, customMetadata=Optional.empty, "
            "state=DELETE_SEGMENT_FINISHED, eventTimestampMs=6, brokerId=1}",
        ),
        (
            "RemotePartitionDeleteMetadataRecord",
            {"topicIdPartition": TOPIC, "remotePartitionDeleteState": 0, **EVENT},
            "RemotePartitionDeleteMetadata{topicPartition=AQ:orders-3, state=DELETE_PARTITION_MARKED, "
            "eventTimestampMs=6, brokerId=1}",
        ),
        (
            "RemoteLogSegmentMetadataSnapshotRecord",
            {"segmentId": "Ag", **EXTENT, **COPIED},
            "RemoteLogSegmentMetadataSnapshot{segmentId=Ag, startOffset=0, endOffset=19, maxTimestampMs=5, "
            f"{COPIED_TOLD}}}",
        ),
    ],
)
def test_text_of_a_record_about_remote_segments_is_javas(name: str, data: dict[str, Any], text: str) -> None:
    assert remote_log_text(name, data) == text
    key = next(key for key in data if key.endswith("State"))
    for unknown in (-1, 4):
        with pytest.raises(InvalidRecord, match=f"unknown state {unknown}"):
            remote_log_text(name, {**data, key: unknown})


def test_java_text_of_random_bytes_is_never_an_error() -> None:
    source = random.Random(1)
    texts = [java_text(random_text(source)) for _ in range(500)]
    assert any("�" in text for text in texts)
