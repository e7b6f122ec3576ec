"""From settings, server.properties, cluster metadata and ``--set`` to the layers of configuration.

Knows no TOML and no pydantic: a command that is given ``--log-dir`` alone starts without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from policies.config_layers import ConfigLayers
from policies.config_sources import ConfigSources, RawLayer, Said
from storage.directory import despite_vanishing
from storage.errors import InvalidConfig, InvalidConfigs
from storage.log_dir import read_file
from storage.metadata_log import ClusterMetadata, Configs, read_cluster_metadata
from storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES_FILE, TopicPartition
from storage.properties import Property, parse_properties, read_properties

METADATA_DIR: Final = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
_SET: Final = "--set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A configuration file, read and checked; without a file, what holds without one.

    Attributes:
        path: the file; None without one.
        server_properties: the broker's own file, whose values are to be read.
        cluster_metadata: read ``__cluster_metadata-0`` where it is there.
        kafka_defaults: the broker runs on Kafka's built-in defaults.
        defaults: ``[defaults]``, ``[cleaner]`` and the keys above all tables, by Kafka's names.
        topics: name or glob -> its table.
        metrics_listen: ``host:port`` of the metrics endpoint; None for no endpoint.
        metrics_per_partition: ``few``, five series a partition, ``all`` or ``none``.
        metrics_textfile: where a one-shot run writes the metrics; None for nowhere.
    """

    path: Path | None = None
    server_properties: Path | None = None
    cluster_metadata: bool = True
    kafka_defaults: bool = False
    defaults: RawLayer = field(default_factory=dict)
    topics: Mapping[str, RawLayer] = field(default_factory=dict)
    metrics_listen: str | None = None
    metrics_per_partition: str = "few"
    metrics_textfile: Path | None = None


class LoadedLayers(NamedTuple):
    """The layers, the log dirs they are for, the cluster metadata that was read for them, if any, and the settings
    they were made of."""

    layers: ConfigLayers
    log_dirs: tuple[Path, ...]
    cluster: ClusterMetadata | None
    settings: Settings

    @property
    def files(self) -> tuple[Path, ...]:
        """The configuration file and ``server.properties``, where they were read."""
        return tuple(path for path in (self.settings.path, self.settings.server_properties) if path)


def load_layers(settings: Settings, log_dirs: Sequence[Path] = (), set_options: Sequence[str] = ()) -> LoadedLayers:
    """Read what the settings name, and make the layers.

    Args:
        settings: of the configuration file, or the ones that hold without it.
        log_dirs: of the command line; without any, those that ``log.dirs`` names.
        set_options: ``KEY=VALUE`` of each ``--set``.

    Raises:
        InvalidConfigs: everything that is wrong in any layer.
        UnreadableFile, CorruptBatch: of server.properties, meta.properties or the cluster metadata.
    """
    properties = read_properties(settings.server_properties) if settings.server_properties else None
    broker = build_layers(settings, server_properties=properties, set_options=set_options).broker_policy()
    dirs = tuple(log_dirs) or tuple(map(Path, broker.log_dirs))
    cluster = None
    if settings.cluster_metadata:
        own_dir = (Path(broker.metadata_log_dir),) if broker.metadata_log_dir else ()
        cluster = _find_cluster_metadata((*own_dir, *dirs))
    layers = build_layers(
        settings,
        server_properties=properties,
        cluster=cluster,
        node_id=_node_id(dirs) if cluster else None,
        set_options=set_options,
    )
    return LoadedLayers(layers, dirs, cluster, settings)


def build_layers(
    settings: Settings,
    *,
    server_properties: Mapping[str, Property] | None = None,
    cluster: ClusterMetadata | None = None,
    node_id: str | None = None,
    set_options: Sequence[str] = (),
) -> ConfigLayers:
    """Make the layers of what was read before.

    Args:
        settings: of the configuration file.
        server_properties: None where none was read.
        cluster: None where there is no cluster metadata.
        node_id: of the broker whose log dirs these are; None takes no broker's own dynamic configs.
        set_options: ``KEY=VALUE`` of each ``--set``.

    Raises:
        InvalidConfigs: everything that is wrong in any layer.
    """
    problems: list[InvalidConfig] = []
    sources = ConfigSources(
        server_properties=_said_in(settings.server_properties, server_properties),
        cluster_default=_said_by(cluster.cluster_default if cluster else {}, "all brokers"),
        broker=_said_by(cluster.broker_configs.get(node_id or "", {}) if cluster else {}, f"broker {node_id}"),
        defaults=settings.defaults,
        topic_metadata=_said_of_topics(cluster) if cluster else {},
        topics_file=settings.topics,
        overrides=_said_by_options(set_options, problems),
        kafka_defaults=settings.kafka_defaults,
        topic_ids=cluster.topic_ids if cluster else None,
    )
    try:
        layers = ConfigLayers.read(sources)
    except InvalidConfigs as found:
        problems += found.problems
    if problems:
        raise InvalidConfigs(tuple(problems))
    return layers


def _find_cluster_metadata(dirs: Sequence[Path]) -> ClusterMetadata | None:
    """The metadata partition lies in one of the dirs: in ``metadata.log.dir``, else in the first log dir."""
    found = next((path for log_dir in dirs if (path := log_dir / METADATA_DIR).is_dir()), None)
    return despite_vanishing(partial(read_cluster_metadata, found)) if found else None


def _node_id(log_dirs: Sequence[Path]) -> str | None:
    """The broker's id, as the first ``meta.properties`` of its log dirs has it."""
    for path in (log_dir / META_PROPERTIES_FILE for log_dir in log_dirs):
        if (data := read_file(path)) is not None:
            properties = parse_properties(data, str(path))
            for key in ("node.id", "broker.id"):
                if key in properties:
                    return properties[key].value.strip()
    return None


def _said_in(path: Path | None, properties: Mapping[str, Property] | None) -> RawLayer | None:
    if properties is None:
        return None
    name = path or "server.properties"
    return {key: Said(value, f"{name} line {line}") for key, (value, line) in properties.items()}


def _said_by(configs: Configs, resource: str) -> RawLayer:
    return {key: Said(value, f"cluster metadata, {resource}") for key, value in configs.items()}


def _said_of_topics(cluster: ClusterMetadata) -> dict[str, RawLayer]:
    return {topic: _said_by(configs, f"topic {topic}") for topic, configs in cluster.topic_configs.items()}


def _said_by_options(set_options: Sequence[str], problems: list[InvalidConfig]) -> RawLayer:
    """``KEY=VALUE`` of each option; the last one holds where a key is set twice."""
    said = {}
    for option in set_options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            problems.append(InvalidConfig(option, None, "must be KEY=VALUE", _SET))
            continue
        said[key.strip()] = Said(value.strip(), _SET)
    return said
