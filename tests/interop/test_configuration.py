"""What ``config show`` says is what ``kafka-configs --describe --all`` says of a real broker on the same files.

Every key that we know is compared, for topics and for the broker: its value, and each place that states one. Two lives
of a broker with different files, four sets of dynamic configurations in each: every key is stated by every combination
of server.properties, cluster default and broker.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS, ConfigKey
from policies.config.policy import Layer
from tests.interop.broker import Broker
from tests.interop.clients import commit_as_group, create_topics
from tests.interop.kafka_jars import judging_version, release
from tests.interop.tool import CONFIGS, Tool

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

COMMAND_SECONDS_MAX: Final = 120
INTERNAL: Final = "__consumer_offsets"
OF_4_4: Final = {"max.decompressed.message.bytes": ("2000000000", "2000000001", "2000000002", "2000000003")}
YOUNGER: Final = (
    {*OF_4_4, "remote.copy.lag.ms", "remote.copy.lag.bytes", "errors.deadletterqueue.group.enable"}
    if release(judging_version()) < (4, 4, 0)
    else set()
)
"""The keys that the judging Kafka lacks."""
OF_TOPICS: Final = {
    "cleanup.policy": ("compact", "delete", "compact,delete", "delete"),
    "retention.ms": ("7200000", "7200001", "7200002", "7200003"),
    "retention.bytes": ("90000000", "90000001", "-1", "90000003"),
    "local.retention.ms": ("1000", "1001", "1002", "1003"),
    "local.retention.bytes": ("2000", "2001", "2002", "2003"),
    "segment.bytes": ("2000000", "2000001", "2000002", "2000003"),
    "segment.ms": ("3600000", "3600001", "3600002", "3600003"),
    "segment.jitter.ms": ("60000", "60001", "60002", "60003"),
    "segment.index.bytes": ("1000000", "1000008", "1000016", "1000024"),
    "index.interval.bytes": ("5000", "5001", "5002", "5003"),
    "flush.messages": ("6000", "6001", "6002", "6003"),
    "flush.ms": ("7000", "7001", "7002", "7003"),
    "file.delete.delay.ms": ("8000", "8001", "8002", "8003"),
    "delete.retention.ms": ("9000", "9001", "9002", "9003"),
    "min.cleanable.dirty.ratio": ("0.1", "0.2", "0.3", "0.4"),
    "min.compaction.lag.ms": ("10", "11", "12", "13"),
    "max.compaction.lag.ms": ("100000", "100001", "100002", "100003"),
    "max.message.bytes": ("1000000", "1000001", "1000002", "1000003"),
    "compression.type": ("gzip", "lz4", "zstd", "uncompressed"),
    "compression.gzip.level": ("1", "2", "3", "4"),
    "compression.lz4.level": ("1", "2", "3", "4"),
    "compression.zstd.level": ("1", "2", "-5", "4"),
    "message.timestamp.type": ("LogAppendTime", "CreateTime", "LogAppendTime", "CreateTime"),
    "message.timestamp.before.max.ms": ("11000", "11001", "11002", "11003"),
    "message.timestamp.after.max.ms": ("12000", "12001", "12002", "12003"),
    "preallocate": ("true", "false", "true", "true"),
    **({} if YOUNGER else OF_4_4),
}
"""Topic key -> what server.properties, the cluster default, the broker and a topic state for it."""
OF_BROKERS: Final = {
    "log.cleaner.threads": ("1", "2", "2"),  # a broker refuses to change it to more than twice as many, or half
    "log.cleaner.dedupe.buffer.size": ("20000000", "20000001", "20000002"),
    "log.cleaner.io.buffer.size": ("600000", "600001", "600002"),
    "log.cleaner.io.buffer.load.factor": ("0.5", "0.6", "0.7"),
    "log.cleaner.io.max.bytes.per.second": ("1000000", "1000001.5", "1e9"),
    "log.cleaner.backoff.ms": ("20000", "20001", "20002"),
    "num.recovery.threads.per.data.dir": ("2", "3", "4"),
    "producer.id.expiration.ms": ("3000000", "3000001", "3000002"),
}
"""Broker key -> what server.properties, the cluster default and the broker state for it."""
STATIC: Final = {
    "log.retention.check.interval.ms": "77000",
    "log.initial.task.delay.ms": "78000",
    "log.flush.offset.checkpoint.interval.ms": "79000",
    "log.flush.start.offset.checkpoint.interval.ms": "80000",
    "producer.id.expiration.check.interval.ms": "81000",
    "log.cleaner.enable": "false",
}
"""Broker keys that only server.properties can state. Kafka describes two of them, internal ones, only if it does."""
WEAKER: Final = {
    "retention.ms": {"log.retention.minutes": "300", "log.retention.hours": "8"},
    "segment.ms": {"log.roll.hours": "3"},
    "segment.jitter.ms": {"log.roll.jitter.hours": "1"},
    "flush.ms": {"log.flush.scheduler.interval.ms": "6999"},
}
"""Topic key -> what stands in server.properties where its strongest broker key does not."""
BROKER: Final = ("--entity-type", "brokers", "--entity-name", "1")
ENTITIES: Final = (("--entity-type", "brokers", "--entity-default"), BROKER)
DESCRIBED: Final = (("--entity-type", "topics"), BROKER)
LIVES: Final = 2
ROUNDS: Final = 4
LAYERS: Final = {
    "DYNAMIC_TOPIC_CONFIG": Layer.TOPIC_METADATA.title,
    "DYNAMIC_BROKER_CONFIG": Layer.BROKER.title,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": Layer.CLUSTER_DEFAULT.title,
    "STATIC_BROKER_CONFIG": Layer.SERVER_PROPERTIES.title,
    "DEFAULT_CONFIG": Layer.KAFKA_DEFAULT.title,
}
_LINE = re.compile(r"  (?P<key>[a-z0-9.]+)=(?P<value>.*) sensitive=false synonyms=\{(?P<places>.*)\}")
_PLACE = re.compile(r"([A-Z_]+):([a-z0-9.]+)=")


Places = tuple[tuple[str, str], ...]
"""Who states a value, the strongest first: the layer, and the name that it uses."""


class Told(NamedTuple):
    """A value, and the places that state one."""

    value: object
    places: Places


Values = Mapping[str, Mapping[str, Told]]
"""Topic, or the empty text for the broker -> key -> what is told of it."""


@dataclass(frozen=True, slots=True)
class Round:
    """One set of dynamic configurations: what the broker described, and what we say of its files."""

    kafka: Values
    ours: Values


def known(keys: tuple[ConfigKey, ...]) -> list[ConfigKey]:
    """The keys that the judging Kafka has, too."""
    return [key for key in keys if not key.ours and key.name not in YOUNGER]


def dynamic_name(key: str) -> str:
    """The name by which a broker takes a key's value at run time."""
    synonyms = {topic_key.name: topic_key.synonyms for topic_key in TOPIC_KEYS}.get(key)
    return synonyms[0].name if synonyms else key


def static(life: int) -> dict[str, str]:
    """Each key stands in server.properties in one of the two lives; in the other its weaker names may."""
    stated = dict(STATIC)
    for number, (key, values) in enumerate({**OF_TOPICS, **OF_BROKERS}.items()):
        if number % LIVES == life:
            stated[dynamic_name(key)] = values[0]
        elif key in WEAKER:
            stated |= WEAKER[key]
    return stated


def dynamic(number: int) -> tuple[dict[str, str], dict[str, str]]:
    """What the cluster default and the broker state: each key in none, one or both, by its place in the table."""
    stated: tuple[dict[str, str], dict[str, str]] = {}, {}
    for place, (key, values) in enumerate({**OF_TOPICS, **OF_BROKERS}.items()):
        for bit, layer in enumerate(stated):
            if (place // LIVES + number) >> bit & 1:
                layer[dynamic_name(key)] = values[1 + bit]
    return stated


def own(every: int) -> dict[str, str]:
    """What a topic states for itself: every second key, or all."""
    return {key: values[3] for number, (key, values) in enumerate(OF_TOPICS.items()) if number % every == 0}


TOPICS: Final = {"plain": dict[str, str](), "some": own(2), "all": own(1)}


def kafka_configs(configs: Tool, broker: Broker, *arguments: str) -> str:
    """What the command prints."""
    told = configs.run("--bootstrap-server", broker.bootstrap, *arguments)
    assert not told.error, told
    return told.out.decode()


def state(
    configs: Tool, broker: Broker, entity: tuple[str, ...], wanted: Mapping[str, str], before: Mapping[str, str]
) -> None:
    """Let a broker, or the cluster default, state these values and no others."""
    file = broker.log_dir.with_name(f"{entity[-1]}.properties")
    file.write_text("".join(f"{key}={value}\n" for key, value in wanted.items()))
    change = ["--alter", "--add-config-file", str(file)]
    if gone := before.keys() - wanted.keys():
        change += ["--delete-config", ",".join(gone)]
    kafka_configs(configs, broker, *entity, *change)


def of_kafka(text: str) -> Values:
    found: dict[str, dict[str, Told]] = {}
    for line in text.splitlines():
        if heading := re.fullmatch(r"All configs for (topic|broker) (\S+) are:", line):
            found[values_of := heading[2] if heading[1] == "topic" else ""] = {}
        elif told := _LINE.fullmatch(line):
            places = tuple((LAYERS[layer], name) for layer, name in _PLACE.findall(told["places"]))
            value = None if told["value"] == "null" else told["value"]
            found[values_of][told["key"]] = Told(value, places)
    return found


def of_ours(log_dir: Path) -> Values:
    """What we say, beside the running broker and of the stopped one alike."""
    command = [sys.executable, "-m", "cleaner", "config", "show", "--all", "--json", "--log-dir", str(log_dir),
               "--server-properties", str(log_dir.with_name(f"{log_dir.name}.properties"))]  # fmt: skip
    found: dict[str, Mapping[str, Told]] = {}
    for arguments in ((), ("--topic", "*")):
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX, check=True
        )
        document = json.loads(done.stdout)
        found |= {one["topic"]: told(one["keys"]) for one in document["topics"]}
        found |= {"": told(document["keys"])} if document["keys"] else {}
    return found


def told(keys: list[dict[str, Any]]) -> dict[str, Told]:
    return {
        one["key"]: Told(one["value"], tuple((stated["layer"], stated["name"]) for stated in one["stated"]))
        for one in keys
    }


@pytest.fixture(scope="module")
def rounds(kafka: str, kafka_tools: str, tmp_path_factory: pytest.TempPathFactory) -> list[Round]:
    """All rounds; the last one of each life is read of the stopped broker's files."""
    log_dir = tmp_path_factory.mktemp("configured") / "data"
    found = []
    before: tuple[Mapping[str, str], Mapping[str, str]] = {}, {}
    for life in range(LIVES):
        broker = Broker(kafka, log_dir, static(life))
        with broker, Tool(kafka_tools, CONFIGS) as configs:
            if life == 0:
                create_topics(broker.bootstrap, TOPICS)
                commit_as_group(broker.bootstrap, "group", "plain")
            for number in range(ROUNDS):
                now = dynamic(number)
                for entity, wanted, stated in zip(ENTITIES, now, before, strict=True):
                    state(configs, broker, entity, wanted, stated)
                texts = [kafka_configs(configs, broker, *entity, "--describe", "--all") for entity in DESCRIBED]
                theirs, before = of_kafka("".join(texts)), now
                if number < ROUNDS - 1:
                    found.append(Round(theirs, of_ours(log_dir)))
        found.append(Round(theirs, of_ours(log_dir)))
    return found


def typed(text: object, value: object) -> object:
    """Kafka's text as a value of our type."""
    if isinstance(value, bool):
        return {"true": True, "false": False}.get(str(text), text)
    if isinstance(value, int | float) and isinstance(text, str):
        return type(value)(text)
    return text


def test_every_key_that_we_know_is_one_that_kafka_describes(rounds: list[Round]) -> None:
    theirs = rounds[0].kafka
    assert {key.name for key in known(TOPIC_KEYS)} - theirs["plain"].keys() == set()
    assert {key.name for key in known(BROKER_KEYS)} - theirs[""].keys() == set()
    assert set(OF_TOPICS) == {key.name for key in known(TOPIC_KEYS) if not key.name.startswith(("remote.", "errors."))}


@pytest.mark.parametrize("topic", TOPICS)
def test_topics_have_the_values_and_places_that_kafka_tells(rounds: list[Round], topic: str) -> None:
    for number, one in enumerate(rounds):
        for key in known(TOPIC_KEYS):
            ours, theirs = one.ours[topic][key.name], one.kafka[topic][key.name]
            assert ours.value == typed(theirs.value, ours.value), f"round {number}: {key.name} of {topic}"
            assert told_by_kafka(ours, key) == without_default(theirs), f"round {number}: {key.name} of {topic}"


def told_by_kafka(ours: Told, key: ConfigKey) -> Places:
    """Kafka tells no place of a broker if none of them uses the strongest name of the key."""
    if key.name not in WEAKER or key.synonyms[0].name in {name for _, name in ours.places}:
        return ours.places
    return tuple(place for place in ours.places if place[0] == Layer.TOPIC_METADATA.title)


def without_default(theirs: Told) -> Places:
    return tuple(place for place in theirs.places if place[0] != Layer.KAFKA_DEFAULT.title)


def test_the_broker_has_the_values_and_places_that_kafka_tells(rounds: list[Round]) -> None:
    named = {key.name: key.name for key in known(BROKER_KEYS)}
    named |= {key.synonyms[0].name: key.name for key in known(TOPIC_KEYS) if len(key.synonyms) == 1}
    for number, one in enumerate(rounds):
        for name, key in named.items():
            ours, theirs = one.ours[""][key], one.kafka[""][name]
            assert ours.value == typed(theirs.value, ours.value), f"round {number}: {name}"
            assert ours.places == without_default(theirs), f"round {number}: {name}"


def test_a_topic_without_values_of_its_own_has_what_we_show_for_the_broker(rounds: list[Round]) -> None:
    for one in rounds:
        for key in known(TOPIC_KEYS):
            assert one.ours[""][key.name] == one.ours["plain"][key.name]


def test_an_internal_topic_differs_in_the_retention_that_must_be_stated_and_in_nothing_else(
    rounds: list[Round],
) -> None:
    for one in rounds:
        differing = {
            key.name
            for key in known(TOPIC_KEYS)
            if one.ours[INTERNAL][key.name].value
            != typed(one.kafka[INTERNAL][key.name].value, one.ours[INTERNAL][key.name].value)
        }
        assert differing <= {"retention.ms", "retention.bytes"}
        assert "retention.ms" in differing
        assert [one.ours[INTERNAL][key].value for key in ("retention.ms", "retention.bytes")] == [-1, -1]


def test_every_key_was_stated_by_every_combination_of_a_brokers_layers(rounds: list[Round]) -> None:
    """So the comparisons compare something."""
    layers = (Layer.SERVER_PROPERTIES, Layer.CLUSTER_DEFAULT, Layer.BROKER)
    for key in (*OF_TOPICS, *OF_BROKERS):
        seen = {frozenset(layer for layer, _ in one.ours[""][key].places) for one in rounds}
        assert len(seen) == (2**2 if key in WEAKER else 2 ** len(layers)), key
