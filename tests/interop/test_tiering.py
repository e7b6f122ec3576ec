"""A tier that a real broker wrote: it holds what a consumer was served, and what the broker no longer has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.checkpoints import parse_leader_epochs
from storage.records import Batch, Record
from tests.batches import iter_batches
from tests.interop import tiering
from tests.interop.clients import CODECS, shown
from tests.interop.tiering import PARTITIONS, TIERED_PARTITIONS, Tiered
from tests.interop.verdicts import Record as Served
from tests.tier_samples import AIVEN, TierSamples

pytestmark = pytest.mark.kafka

SUFFIXES = {".log", ".index", ".timeindex", ".snapshot", ".leader_epoch_checkpoint"}
LIVES = 2
SERVED_BY_BOTH = 30


def batches_of(log: Path) -> Iterator[Batch]:
    for batch in iter_batches(log.read_bytes(), log):
        assert isinstance(batch, Batch)
        yield batch


def records_of(logs: list[Path]) -> Iterator[Record]:
    for log in logs:
        for batch in batches_of(log):
            if not batch.header.is_control:
                yield from batch.records()


def remote_logs(tiered: Tiered, name: str) -> list[Path]:
    return sorted(tiered.tier.glob(f"{tiering.TIER}/{name}-*/*.log"))


def test_tiered_and_local_files_together_hold_what_a_consumer_read(tiered: Tiered) -> None:
    for name in PARTITIONS:
        logs = [*remote_logs(tiered, name), *sorted((tiered.log_dir / name).glob("*.log"))]
        found = {record.offset: shown(record) for record in records_of(logs)}
        read = tiered.read[name, "read_uncommitted"]
        assert [found[record.offset] for record in read] == read
        assert sorted(found) == [record.offset for record in read]


def test_samples_are_what_such_a_broker_leaves(tiered: Tiered, tiers: TierSamples) -> None:
    for name in ("local", *AIVEN):
        kept = tiers[name].read()
        assert {key: len(records) for key, records in kept.items()} == {key: len(r) for key, r in tiered.read.items()}


def test_the_broker_has_deleted_what_it_tiered(tiered: Tiered) -> None:
    assert set(tiered.first_local_offsets) == set(PARTITIONS)
    assert {name for name, offset in tiered.first_local_offsets.items() if offset > 0} == set(TIERED_PARTITIONS)
    assert all(bool(remote_logs(tiered, name)) == (name in TIERED_PARTITIONS) for name in PARTITIONS)


def test_each_segment_lies_there_with_its_companions_and_the_epochs_of_both_lives(tiered: Tiered) -> None:
    for name in TIERED_PARTITIONS:
        for log in remote_logs(tiered, name):
            beside = {path.suffix for path in log.parent.glob(f"{log.stem}.*")}
            assert beside - {".txnindex"} == SUFFIXES
        last = remote_logs(tiered, name)[-1].with_suffix(".leader_epoch_checkpoint")
        assert len(parse_leader_epochs(last.read_bytes(), last)) == LIVES


def test_transactions_that_were_aborted_are_in_the_tier(tiered: Tiered) -> None:
    indexes = [log.with_suffix(".txnindex") for log in remote_logs(tiered, "transactions-0")]
    assert any(index.exists() for index in indexes)
    committed, everything = (
        len(tiered.read["transactions-0", isolation]) for isolation in reversed(tiering.ISOLATIONS)
    )
    assert committed < everything


def test_records_of_every_kind_were_served(tiered: Tiered) -> None:
    assert any(record.value is None for record in tiered.read["codecs-0", "read_uncommitted"])
    codecs = {batch.header.compression for log in remote_logs(tiered, "codecs-0") for batch in batches_of(log)}
    assert len(codecs) == len(CODECS)


def test_unclean_election_leaves_two_copies_of_some_offsets_of_which_one_was_served(tiers: TierSamples) -> None:
    sample = tiers["divided"]
    served = sample.read()["divided-0", "read_uncommitted"]
    copies: dict[int, list[Served]] = {}
    for record in records_of(sorted(sample.tier.glob(f"{tiering.TIER}/divided-0-*/*.log"))):
        copies.setdefault(record.offset, []).append(shown(record))
    twice = [record for record in served if len(set(copies.get(record.offset, ()))) > 1]
    assert all(record in copies[record.offset] for record in twice)
    assert len(twice) == SERVED_BY_BOTH
    assert max(copies) > served[-1].offset
