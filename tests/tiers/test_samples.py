"""Tiers that real brokers wrote, by Kafka's own storage and by Aiven's plugin: read as a consumer read them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.log.listing import list_partition
from storage.log.read import read_batches
from storage.log_dir import LogDir
from storage.records.v2 import Batch
from storage.tiers.metadata import metadata_partition, read_metadata
from storage.tiers.tier import Tier
from storage.tiers.view import view_at, view_of
from tests.interop.clients import shown
from tests.interop.verdicts import Record as Served
from tests.tier_samples import AIVEN, TierSample, TierSamples

NAMES = ("local", "divided", *AIVEN)
PREFIX = "some/prefix-"


def tier_of(sample: TierSample) -> Path:
    return sample.tier if sample.root.name in ("local", "divided") else sample.tier / PREFIX


def served_by(sample: TierSample, tiers: TierSamples, name: str) -> list[Served]:
    view = view_of(tier_of(sample), [sample.log_dir], [str(tiers.private_key)])
    batches = list(read_batches(list_partition(view / name).segments, 0, 1 << 62))
    assert all(before.header.next_offset <= after.base_offset for before, after in pairwise(batches))
    data = [batch for batch in batches if isinstance(batch, Batch) and not batch.header.is_control]
    found = view_at(view)
    assert found is not None
    assert not found.problems
    return [shown(record) for batch in data for record in batch.records()]


@pytest.mark.parametrize("sample", NAMES)
def test_local_and_remote_are_the_records_that_a_consumer_read(sample: str, tiers: TierSamples) -> None:
    read = tiers[sample].read()
    for name in {name for name, _ in read}:
        assert served_by(tiers[sample], tiers, name) == read[name, "read_uncommitted"]


@pytest.mark.parametrize("sample", NAMES)
def test_export_takes_the_committed_records_that_a_consumer_read(
    sample: str, tiers: TierSamples, capsys: pytest.CaptureFixture[str]
) -> None:
    one, read = tiers[sample], tiers[sample].read()
    for name in {name for name, _ in read}:
        options = f"--log-dir {one.log_dir} --tier {tier_of(one)} --tier-key key1={tiers.private_key}"
        status = main(f"export {name} - --to jsonl --isolation-level read_committed {options}".split())
        offsets = [json.loads(line)["offset"] for line in capsys.readouterr().out.splitlines()]
        assert (status, offsets) == (ExitStatus.DONE, [record.offset for record in read[name, "read_committed"]])


@pytest.mark.parametrize("sample", NAMES)
def test_the_tier_alone_has_the_first_records_that_a_consumer_read(sample: str, tiers: TierSamples) -> None:
    one, read = tiers[sample], tiers[sample].read()
    view = view_of(tier_of(one), [], [str(tiers.private_key)])
    for name, _ in LogDir(view).partitions():
        batches = read_batches(list_partition(view / str(name)).segments, 0, 1 << 62)
        records = [shown(r) for b in batches if isinstance(b, Batch) and not b.header.is_control for r in b.records()]
        expected = read[str(name), "read_uncommitted"]
        assert records
        if sample != "divided":  # nothing but the metadata and the local epochs tell what the last election cut off
            assert records == expected[: len(records)]


@pytest.mark.parametrize("sample", NAMES)
def test_the_metadata_of_a_partition_lie_where_a_broker_puts_them(sample: str, tiers: TierSamples) -> None:
    metadata = read_metadata([tiers[sample].log_dir])
    assert metadata.replay.unknown == 0
    assert metadata.partitions()
    for partition in metadata.partitions():
        assert metadata_partition(partition, len(metadata.ends_ms)) == metadata.places[partition]


@pytest.mark.parametrize("sample", NAMES)
def test_files_and_metadata_tell_the_same_of_a_segment(sample: str, tiers: TierSamples) -> None:
    one = tiers[sample]
    keys = [str(tiers.private_key)]
    named, alone = Tier.open(tier_of(one), [one.log_dir], keys), Tier.open(tier_of(one), keys=keys)
    for partition in alone.partitions:
        ours = {s.segment_id: s for s in named.segments(partition)}
        for segment in alone.segments(partition):
            other = ours[segment.segment_id]
            assert (segment.start_offset, segment.end_offset, segment.size_bytes, segment.epochs) == (
                other.start_offset,
                other.end_offset,
                other.size_bytes,
                other.epochs,
            )
            assert other.has_metadata
