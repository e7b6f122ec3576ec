"""A tier in a bucket: what a lookup moves, and that it is read as one on this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from pathlib import Path
from typing import Final

import obstore
import pytest
from zstandard import ZstdCompressor

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.records import Record, encode_batch
from tests.partition_dirs import NOW_MS
from tests.storage.stores.proxy import Proxy
from tests.storage.stores.servers import OF_S3, SCHEME, upload, writer
from tests.tier_samples import TierSamples
from tests.tiers.drawn import TOPIC_ID, AivenForm, a_batch, aiven_objects, an_id, encoded_sizes, segment_of
from tests.tiers.test_samples import NAMES, tier_of

pytestmark = OF_S3

CHUNK_BYTES: Final = 4 << 20
SEGMENT_BYTES: Final = int(os.environ.get("LOGCLEANER_TIER_SEGMENT", str(128 << 20)))
"""Of the segment that is searched. 1 GiB takes 2 GiB of memory."""
REQUESTS_MAX: Final = 10
CHUNKS_MAX: Final = 2


def large_segment(size_bytes: int) -> tuple[dict[str, bytes], int, list[int]]:
    """The three objects of a segment in compressed chunks, by suffix; its last offset; and the sizes of the chunks."""
    log, index, times, offset = bytearray(), b"", b"", 0
    while len(log) < size_bytes:
        value = hashlib.shake_128(struct.pack(">q", offset)).digest(64 << 10)
        data = encode_batch([Record(offset, NOW_MS + offset, b"k", value)], partition_leader_epoch=0)
        if log:
            index += struct.pack(">ii", offset, len(log))
            times += struct.pack(">qi", NOW_MS + offset, offset)
        log += data
        offset += 1
    compressor = ZstdCompressor(level=1)
    chunks = [compressor.compress(bytes(log[at : at + CHUNK_BYTES])) for at in range(0, len(log), CHUNK_BYTES)]
    sizes = list(map(len, chunks))
    epochs = b"0\n1\n0 0\n"
    places, indexes = {}, b""
    for name, data in {"offset": index, "timestamp": times, "producerSnapshot": b"", "leaderEpoch": epochs}.items():
        places[name] = {"position": len(indexes), "size": len(data)}
        indexes += data
    manifest = {
        "version": "1",
        "chunkIndex": {
            "type": "variable",
            "originalChunkSize": CHUNK_BYTES,
            "originalFileSize": len(log),
            "transformedChunks": base64.b64encode(compressor.compress(encoded_sizes(sizes))).decode(),
        },
        "segmentIndexes": {**places, "transaction": None},
        "compression": True,
        "remoteLogSegmentMetadata": {
            "startOffset": 0,
            "endOffset": offset - 1,
            "maxTimestampMs": NOW_MS - 1 + offset,
            "brokerId": 1,
            "eventTimestampMs": NOW_MS,
            "segmentLeaderEpochs": {"0": 0},
        },
    }
    objects = {".log": b"".join(chunks), ".indexes": indexes, ".rsm-manifest": json.dumps(manifest).encode()}
    return objects, offset - 1, sizes


@pytest.fixture(scope="module")
def large(server: str) -> tuple[str, int, int]:
    """The URL of a tier with a large segment, its last offset, and the size of its largest chunk."""
    store = writer(server, "large")
    objects, last, sizes = large_segment(SEGMENT_BYTES)
    behind = segment_of(last + 1, a_batch(last + 1, "behind", timestamp_ms=NOW_MS + last + 1))
    for key, data in aiven_objects(behind, AivenForm("tier/")).items():
        obstore.put(store, key, data)
    for suffix, data in objects.items():
        obstore.put(store, f"tier/orders-{TOPIC_ID}/0/{0:020d}-{an_id('large')}{suffix}", data)
    return f"{SCHEME}://large/tier", last, max(sizes)


@pytest.mark.parametrize("share", [0.0, 0.37, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("by", ["offset", "timestamp"])
def test_a_lookup_in_a_large_segment_moves_two_chunks_at_most(
    share: float, by: str, large: tuple[str, int, int], through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    url, last, chunk_bytes = large
    offset = round(share * last)
    through.traffic.clear()
    wanted = offset if by == "offset" else NOW_MS + offset
    status = main(f"lookup orders-0 --{by} {wanted} --json --tier {url}".split())
    found = json.loads(capsys.readouterr().out)
    asked = [request for request in through.traffic.requests if ".indexes" not in request[1]]
    ranges = [
        asked_for.removeprefix("bytes=").split("-")
        for _, path, asked_for in asked
        if path.endswith(f"{an_id('large')}.log")
    ]
    assert (status, found["batch"]["last_offset"]) == (ExitStatus.DONE, offset)
    assert len(asked) <= REQUESTS_MAX
    assert sum(int(last) - int(first) + 1 for first, last in ranges) <= CHUNKS_MAX * chunk_bytes


@pytest.mark.parametrize("sample", NAMES)
def test_a_tier_in_a_bucket_says_what_it_says_on_this_machine(
    sample: str, tiers: TierSamples, server: str, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tiers[sample]
    upload(one.tier, writer(server, sample), "tier")
    url = f"{SCHEME}://{sample}/tier/{Path(tier_of(one)).relative_to(one.tier)}".removesuffix("/.")
    said = {}
    for place in (url, tier_of(one)):
        options = f"--log-dir {one.log_dir} --tier {place} --tier-key {tiers.private_key}"
        status = main(f"export transactions-0 - --to jsonl {options}".split() if sample != "divided" else
                      f"export divided-0 - --to jsonl {options}".split())  # fmt: skip
        said[str(place)] = status, capsys.readouterr().out
        status = main(f"verify --json {options}".split())
        assert json.loads(capsys.readouterr().out)["findings"] == []
        assert status == ExitStatus.DONE
    here, there = said.values()
    assert here == there
    assert here[1]
