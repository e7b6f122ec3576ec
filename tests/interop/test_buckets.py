"""The page on backups in a bucket: every command, from the log dir of a broker to a broker on what came back."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.test_commands import ON_A_BUCKET, World, is_run
from tests.interop import clients
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import Writer
from tests.storage.stores.servers import environment, serving, writer

pytestmark = pytest.mark.kafka

TOPICS = {
    "orders": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "clicks": {"cleanup.policy": "delete", "retention.ms": "-1"},
}


class BucketWorld(World):
    """A machine with the log dir of a broker, and with the credentials of a bucket."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **environment(os.environ["BUCKETS_OF_THE_PAGE"])}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketWorld]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/logcleaner").write_text(f'#!/bin/sh\nexec {sys.executable} -m cleaner "$@"\n')
    (tmp_path / "bin/logcleaner").chmod(0o755)
    with serving() as url:
        writer(url, "backups")
        monkeypatch.setenv("BUCKETS_OF_THE_PAGE", url)
        yield BucketWorld(tmp_path)


def test_way_of_the_page_leads_from_a_broker_to_a_broker(kafka: str, world: BucketWorld) -> None:
    broker = Broker(kafka, world.root / "data", QUIET)
    with broker:
        clients.create_topics(broker.bootstrap, TOPICS)
        writing = Writer(broker.bootstrap, random.Random(5))
        for _ in range(5):
            writing.send(writing.producer(), "orders", 200)
            writing.send(writing.producer(), "clicks", 50)
        before = {topic: clients.consumed(broker.bootstrap, topic, 0, "read_uncommitted") for topic in TOPICS}
    ran = [
        command for block in blocks("sh") if block.page == ON_A_BUCKET for command in block.commands if is_run(command)
    ]
    for command in ran:
        world.run(command)
    assert sum("s3://" in command for command in ran) >= 9
    with Broker(kafka, world.root / "restored", QUIET, broker.ports) as again:
        after = {topic: clients.consumed(again.bootstrap, topic, 0, "read_uncommitted") for topic in TOPICS}
    assert after["clicks"] == before["clicks"]
    assert {record.key: record for record in after["orders"]} == {record.key: record for record in before["orders"]}
    assert len(after["orders"]) < len(before["orders"]) / 2
