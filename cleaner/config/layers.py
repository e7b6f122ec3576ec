"""The layers of configuration, made from settings, server.properties, cluster metadata and ``--set``.

This module imports neither TOML nor pydantic, so that a command with only ``--log-dir`` starts without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.config.config_layers import ConfigLayers, Configured
from policies.config.config_sources import ConfigSources, RawLayer, Said, removed_in
from policies.facts import ConfigFacts
from storage.errors import InvalidConfig, InvalidConfigs, UnreadableFile
from storage.properties import Property

if TYPE_CHECKING:
    from storage.metadata.metadata_log import ClusterMetadata, Configs

_SET: Final = "--set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a configuration file that was read and checked, or the defaults if there is no file.

    Attributes:
        path: the file; None if there is none.
        server_properties: the broker's own file, from which values are read, too.
        names_both: the file names both ``server.properties`` and ``log.dirs``, so they belong together.
        cluster_metadata: read ``__cluster_metadata-0`` if it exists.
        kafka_defaults: whether the broker runs on Kafka's built-in defaults.
        defaults: ``[defaults]``, ``[cleaner]`` and the keys above all tables, by Kafka's names.
        topics: name or glob -> its table.
        metrics_listen: ``host:port`` of the metrics endpoint; None for no endpoint.
        metrics_per_partition: ``few`` (five series for each partition), ``all`` or ``none``.
        metrics_textfile: the file to which a one-shot run writes the metrics; None for no file.
        report_html: the page to which the daemon writes its last plan; None for no page.
    """

    path: Path | None = None
    server_properties: Path | None = None
    names_both: bool = False
    cluster_metadata: bool = True
    kafka_defaults: bool = False
    defaults: RawLayer = field(default_factory=dict)
    topics: Mapping[str, RawLayer] = field(default_factory=dict)
    metrics_listen: str | None = None
    metrics_per_partition: str = "few"
    metrics_textfile: Path | None = None
    report_html: Path | None = None


class LoadedLayers(NamedTuple):
    """The configuration that was read at one moment.

    Attributes:
        layers: everything that the sources state.
        log_dirs: the log dirs of the configuration, with the paths that name them.
        cluster: the cluster metadata that was read; None if there was none.
        settings: the settings of the configuration file.
        facts: resolved log dir -> facts that show whether the configuration is that of its broker.
        rejected: why the file was rejected, so that an earlier one holds; None if the file was accepted.
        ignored: a sentence for each key that is ignored: misspelt in ``server.properties``, or gone from logcleaner.
        contents: the bytes of each of the ``files``, as they were read.
        unread: log dir -> why its own ``meta.properties`` could not be read. Nobody may go by such a log dir.
    """

    layers: ConfigLayers
    log_dirs: tuple[Path, ...]
    cluster: ClusterMetadata | None
    settings: Settings
    facts: Mapping[Path, ConfigFacts] = {}
    rejected: str | None = None
    ignored: tuple[str, ...] = ()
    contents: Mapping[Path, bytes] = {}
    unread: Mapping[Path, UnreadableFile] = {}

    @property
    def configured(self) -> Configured:
        """Return the part of the configuration that the engine needs."""
        name = next((str(path.absolute()) for path in self.files), None)
        return Configured(self.log_dirs, self.layers, self.facts, name)

    @property
    def files(self) -> tuple[Path, ...]:
        """The configuration file and ``server.properties``, if they were read."""
        return tuple(path for path in (self.settings.path, self.settings.server_properties) if path)


def build_layers(
    settings: Settings,
    *,
    server_properties: Mapping[str, Property] | None = None,
    set_options: Sequence[str] = (),
) -> ConfigLayers:
    """Make all layers except the cluster metadata, from content that was read before.

    Args:
        settings: of the configuration file.
        server_properties: None if no such file was read.
        set_options: ``KEY=VALUE`` of each ``--set``.

    Raises:
        InvalidConfigs: everything that is wrong in any layer.
    """
    problems: list[InvalidConfig] = []
    sources = ConfigSources(
        server_properties=_said_in(settings.server_properties, server_properties),
        defaults=settings.defaults,
        topics_file=settings.topics,
        overrides=_said_by_options(set_options, problems),
        kafka_defaults=settings.kafka_defaults,
    )
    try:
        layers = ConfigLayers.read(sources)
    except InvalidConfigs as found:
        problems += found.problems
    if problems:
        raise InvalidConfigs(tuple(problems))
    return layers


def removed_of(settings: Settings, set_options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a sentence for each stated key that earlier versions had, and that is ignored now."""
    layers = (settings.defaults, *settings.topics.values(), _said_by_options(set_options, []))
    return tuple(sentence for raw in layers for sentence in removed_in(raw))


def with_cluster_metadata(layers: ConfigLayers, cluster: ClusterMetadata, node_id: str | None) -> ConfigLayers:
    """Add the configurations of the cluster metadata to layers that were made without it.

    Args:
        layers: from ``build_layers``.
        cluster: the cluster metadata.
        node_id: of the broker that has the log dirs; if it is None, no broker's own dynamic configs are taken.

    Raises:
        InvalidConfigs: everything that is wrong in the cluster metadata.
    """
    file = str(cluster.directory.absolute())
    topic_configs = cluster.topic_configs.items()
    sources = ConfigSources(
        cluster_default=_said_by(cluster.cluster_default, "all brokers", file),
        broker=_said_by(cluster.broker_configs.get(node_id or "", {}), f"broker {node_id}", file),
        topic_metadata={topic: _said_by(configs, f"topic {topic}", file) for topic, configs in topic_configs},
        topic_ids=cluster.topic_ids,
    )
    return layers.with_cluster(sources)


def _said_in(path: Path | None, properties: Mapping[str, Property] | None) -> RawLayer | None:
    if properties is None:
        return None
    name = path or "server.properties"
    file = str(path.absolute()) if path else None
    return {key: Said(value, f"{name} line {line}", file, line) for key, (value, line) in properties.items()}


def _said_by(configs: Configs, resource: str, file: str) -> RawLayer:
    return {key: Said(value, f"cluster metadata, {resource}", file) for key, value in configs.items()}


def _said_by_options(set_options: Sequence[str], problems: list[InvalidConfig]) -> RawLayer:
    """Return the keys and values of all ``KEY=VALUE`` options; if a key is set twice, the last value holds."""
    said = {}
    for option in set_options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            problems.append(InvalidConfig(option, None, "must be KEY=VALUE", _SET))
            continue
        said[key.strip()] = Said(value.strip(), _SET)
    return said
