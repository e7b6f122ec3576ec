"""The owners in the internal topics of a real broker: groups and transactional ids, as the broker itself tells them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from cleaner.cli.main import main
from tests.interop.broker import QUIET, Broker
from tests.interop.clients import SECONDS_MAX, Writer, admin_of, commit_as_group, create_topics

pytestmark = pytest.mark.kafka

HOSTILE: Final = "a\tb\x1b[31m" + "ü" * 120
GROUPS: Final = ("billing", HOSTILE, "deleted", "with members", "new protocol")
COMMITS: Final = 5
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")


class Left:
    """A log dir as a broker left it, and what the broker said before."""

    def __init__(self, log_dir: Path) -> None:
        self.log_dir = log_dir
        self.offsets: dict[str, set[tuple[str, int]]] = {}
        self.states: dict[str, str] = {}
        self.beside: dict[str, Any] = {}


@pytest.fixture(scope="module")
def left(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Left:
    found = Left(tmp_path_factory.mktemp("owners") / "data")
    broker = Broker(kafka, found.log_dir, {**QUIET, "group.initial.rebalance.delay.ms": "0"})
    with broker:
        create_topics(broker.bootstrap, {"orders": {}, "clicks": {}})
        writer = Writer(broker.bootstrap, random.Random(7))
        writer.send(writer.producer(), "orders", 20)
        for group in ("billing", HOSTILE, "deleted"):
            commit_as_group(broker.bootstrap, group, "orders")
        commit_as_group(broker.bootstrap, "billing", "clicks")
        members = [
            joined(broker.bootstrap, "with members", "classic"),
            joined(broker.bootstrap, "new protocol", "consumer"),
        ]
        writer.transactions("orders", "tx-committed", [True, True])
        writer.transactions("orders", "tx-aborted", [True, False])
        admin = admin_of(broker.bootstrap)
        admin.delete_consumer_groups(["deleted"])["deleted"].result(SECONDS_MAX)
        for group in GROUPS:
            found.offsets[group] = offsets_of(admin, group)
        listed = admin.list_consumer_groups().result(SECONDS_MAX).valid
        found.states = {group.group_id: group.state.name for group in listed}
        found.beside = beside_the_broker(found.log_dir)
        broker.kill()  # the members are still there
        for member in members:
            member.close()
    return found


def beside_the_broker(log_dir: Path) -> dict[str, Any]:
    """What ``owners`` tells while the broker runs, which writes, and whose index files are preallocated."""
    command = [sys.executable, "-m", "cleaner", "owners", "--json", "--log-dir", str(log_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def joined(bootstrap: str, group: str, protocol: str) -> Consumer:
    """A member that has read, and committed; it stays."""
    own = {"session.timeout.ms": 45_000} if protocol == "classic" else {}
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol, "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "log_level": 0, **own,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    message = consumer.poll(SECONDS_MAX)
    assert message is not None
    assert message.error() is None
    for _ in range(COMMITS):
        consumer.commit(message=message, asynchronous=False)
    return consumer


def offsets_of(admin: AdminClient, group: str) -> set[tuple[str, int]]:
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    partitions: list[TopicPartition] = asked[group].result(SECONDS_MAX).topic_partitions
    return {(found.topic, found.partition) for found in partitions}


def told(capsys: pytest.CaptureFixture[str], log_dir: Path, *options: str) -> dict[str, Any]:
    assert main(["owners", "--json", "--log-dir", str(log_dir), *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def owners(document: dict[str, Any], topic: str) -> Iterator[dict[str, Any]]:
    for partition in document["partitions"]:
        if partition["topic"] == topic:
            yield from partition["owners"]


def test_the_groups_are_those_that_the_broker_told(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    found = {owner["name"]: owner for owner in owners(told(capsys, left.log_dir), "__consumer_offsets")}
    assert set(found) == set(GROUPS)
    for group, offsets in left.offsets.items():
        topics = [topic for topic in found[group]["topics"] if topic["topic"] is not None and topic["live_keys"]]
        assert sum(topic["live_keys"] for topic in topics) == len(offsets)
        assert {topic["topic"] for topic in topics} == {topic for topic, _ in offsets}
    states = {"STABLE": "active", "EMPTY": "empty"}
    assert found["deleted"]["state"] == "dead"
    assert "deleted" not in left.states
    for group in ("with members", "new protocol"):
        assert found[group]["state"] == states[left.states[group]] == "active"
        assert found[group]["members"] == 1
        assert found[group]["protocol"] == "consumer"
    for group in ("billing", HOSTILE):
        assert left.states[group] == "EMPTY"
        assert found[group]["state"] in ("empty", "no group")
    committed = {topic["topic"]: topic for topic in found["billing"]["topics"]}
    assert committed["orders"]["records"] == COMMITS
    assert committed["orders"]["superseded_records"] == COMMITS - 1


def test_beside_a_live_broker_it_tells_the_same(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    after = {owner["name"]: owner for owner in owners(told(capsys, left.log_dir), "__consumer_offsets")}
    beside = {owner["name"]: owner for owner in owners(left.beside, "__consumer_offsets")}
    assert {name: owner["records"] for name, owner in beside.items()} == {
        name: owner["records"] for name, owner in after.items()
    }


def test_the_transactional_ids_have_the_states_of_their_last_transactions(
    left: Left, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {owner["name"]: owner["state"] for owner in owners(told(capsys, left.log_dir), "__transaction_state")}
    assert found == {"tx-committed": "committed", "tx-aborted": "aborted"}


def test_all_bytes_of_the_files_have_an_owner_or_a_name(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    document = told(capsys, left.log_dir)
    assert {partition["topic"] for partition in document["partitions"]} == set(INTERNAL)
    for partition in document["partitions"]:
        directory = left.log_dir / f"{partition['topic']}-{partition['partition']}"
        on_disk = sum(path.stat().st_size for path in directory.glob("*.log"))
        told_bytes = sum(one["bytes"] for one in (*partition["owners"], *partition["others"]))
        assert told_bytes == partition["bytes"] == on_disk
        assert partition["problems"] == []
        assert [other for other in partition["others"] if not other["records"]] == []  # nothing but records


def test_offsets_of_groups_without_members_expire_and_others_do_not(
    left: Left, capsys: pytest.CaptureFixture[str]
) -> None:
    document = told(capsys, left.log_dir, "--now", "+8d")
    expired = {owner["name"]: owner["expired"] for owner in owners(document, "__consumer_offsets")}
    wanted = {"billing": 2, HOSTILE: 1, "deleted": 0, "with members": 0, "new protocol": 0}
    assert expired == wanted
    assert {owner["expired"] for owner in owners(document, "__transaction_state")} == {1}


def test_a_hostile_name_moves_no_cursor(left: Left, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["owners", "-v", "--log-dir", str(left.log_dir)]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\t" not in shown
    assert "a\\tb\\x1b[31m" in shown
