"""A broker starts on a partition that our ``Log`` wrote while producers waited: they go on where they were.

The idempotent producer keeps its id, epoch and sequence; the transactional one ends, after the broker's stop, the
transaction that it began before it.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from storage.log.leader_epochs import read_topic_id
from storage.log.writing.validation import AppendOrigin
from storage.records import Batch as OurBatch
from tests.batches import iter_batches
from tests.interop import clients
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import TRANSACTION_MS_MAX, Writer
from tests.interop.referee import Referee
from tests.interop.verdicts import Batch

pytestmark = pytest.mark.kafka

TOPIC: Final = "outlived"
SETTINGS: Final = {**QUIET, "log.roll.ms": "604800000"}
ISOLATIONS: Final = ("read_uncommitted", "read_committed")


@dataclass(slots=True)
class Clients:
    """Producers that live longer than the broker."""

    writer: Writer
    idempotent: Producer
    transactional: Producer


def test_producers_go_on_where_our_log_wrote_their_batches(kafka: str, referee: Referee, tmp_path: Path) -> None:
    broker = Broker(kafka, tmp_path / "data", SETTINGS)
    partition_dir = broker.log_dir / f"{TOPIC}-0"
    with broker:
        clients.create_topics(broker.bootstrap, {TOPIC: {}})
        lasting = _begin(broker.bootstrap)
    before = _written_again(partition_dir)
    lasting.idempotent.produce(TOPIC, key="waits", value=b"for the broker", timestamp=lasting.writer.now_ms)
    with broker:
        lasting.writer.send(lasting.idempotent, TOPIC, 7)
        lasting.writer.send(lasting.transactional, TOPIC, 3)
        clients.patiently(lasting.transactional.commit_transaction)
        read = {isolation: clients.consumed(broker.bootstrap, TOPIC, 0, isolation) for isolation in ISOLATIONS}
    copy = tmp_path / "copy" / partition_dir.name
    shutil.copytree(partition_dir, copy)
    (log,) = referee.read([copy])
    assert {isolation: clients.visible(log, isolation) for isolation in ISOLATIONS} == read
    assert len(read["read_uncommitted"]) > len(read["read_committed"]) > 20
    batches = [batch for batch in log.batches() if not batch.control]
    assert batches[-1].base_offset > before
    for producer_id in {batch.producer_id for batch in batches}:
        own = [batch for batch in batches if batch.producer_id == producer_id]
        assert own[0].base_offset < before < own[-1].base_offset
        assert len({batch.producer_epoch for batch in own}) == 1
        assert list(_gaps(own)) == []
    assert [known for known in log.producers if known.current_txn_first_offset is not None] == []


def _begin(bootstrap: str) -> Clients:
    """A transaction committed, one aborted, one open; and plain batches of an idempotent producer."""
    writer = Writer(bootstrap, random.Random(25))
    idempotent = writer.producer(enable_idempotence=True)
    writer.send(idempotent, TOPIC, 11)
    transactional = writer.producer(transactional_id="outliving", transaction_timeout_ms=TRANSACTION_MS_MAX)
    clients.patiently(transactional.init_transactions)
    for is_committed in (True, False):
        transactional.begin_transaction()
        writer.send(transactional, TOPIC, 6)
        clients.patiently(transactional.commit_transaction if is_committed else transactional.abort_transaction)
    transactional.begin_transaction()
    writer.send(transactional, TOPIC, 4)
    return Clients(writer, idempotent, transactional)


def _written_again(partition_dir: Path) -> int:
    """Put a log of ours, with the same batches, in the place of the broker's; gives its end.

    Every file of ours has the bytes of the broker's.
    """
    theirs = partition_dir.with_name("theirs")
    partition_dir.rename(theirs)
    topic_id = read_topic_id(theirs)
    assert topic_id is not None
    segments = sorted(theirs.glob("*.log"))
    assert len(segments) > 1  # markers have the time of now, which rolls
    with Log.create(partition_dir, LogConfig(), FileSystem(), topic_id=topic_id) as log:
        for batch in chain.from_iterable(iter_batches(path.read_bytes(), path) for path in segments):
            assert isinstance(batch, OurBatch)
            # as its producer sent it: from offset 0 on
            origin = AppendOrigin.COORDINATOR if batch.header.is_control else AppendOrigin.CLIENT
            epoch, now_ms = batch.header.partition_leader_epoch, batch.header.max_timestamp_ms
            log.append(bytes(8) + bytes(batch.data)[8:], now_ms=now_ms, leader_epoch=epoch, origin=origin)
        end = log.log_end_offset
    files = {path.name: path.read_bytes() for path in partition_dir.iterdir()}
    assert files == {path.name: path.read_bytes() for path in theirs.iterdir()}
    shutil.rmtree(theirs)
    return end


def _gaps(batches: list[Batch]) -> Iterator[tuple[int, int]]:
    """Neighbouring batches of a producer of which the second does not follow the first."""
    for batch, following in pairwise(batches):
        if following.base_sequence != batch.last_sequence + 1:
            yield batch.base_offset, following.base_offset
