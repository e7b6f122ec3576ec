"""The reader of all configuration. Each call reads every source again, unless its files are unchanged.

A run reads the configuration twice: first to find the log dirs, then again under their locks. So the second reading
sees what a broker or a person changed in between. Its files belong together: if one changed while the others were read,
as when Kubernetes swaps the directory of a ConfigMap, all are read again. Only the cluster metadata is large (a log of
22 MB takes two seconds). The reader remembers the metadata together with the state of its files *before* they were
read. So a change during the reading makes the next call read again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cleaner.config.files import CommandFiles, State, misspelt, read_server_properties, state_of_directory
from cleaner.config.layers import LoadedLayers, Settings, build_layers, removed_of, with_cluster_metadata
from policies.config.policy import BrokerPolicy, Layer
from policies.facts import ConfigFacts
from storage.directory import despite_vanishing, followed
from storage.errors import ErrorKind, InvalidConfig, LogCleanerError, NotALogDir, UnreadableFile
from storage.log_dir import LogDir, LogDirNotThere, read_file
from storage.names import CLUSTER_METADATA_TOPIC, META_PROPERTIES_FILE, TopicPartition
from storage.properties import Property, parse_properties
from storage.stores.paths import StoredPath

if TYPE_CHECKING:
    from storage.metadata.metadata_log import ClusterMetadata

METADATA_DIR: Final = str(TopicPartition(CLUSTER_METADATA_TOPIC, 0))
_READINGS_MAX: Final = 8
"""How often the files may change while they are read, before the reader gives up."""
_ID_KEYS: Final = ("node.id", "broker.id")

Properties = Mapping[str, Property]


class ConfigurationChanges(LogCleanerError):
    """A configuration file that changes between readings again and again, so that nobody knows which content holds."""

    kind = ErrorKind.REFUSED

    path: Path

    def __str__(self) -> str:
        return f"{self.path}: changes while the configuration is read; nothing was done, run again once it is written"


class _Remembered(NamedTuple):
    """Cluster metadata, and the state of its directory before they were read."""

    directory: Path
    state: State
    metadata: ClusterMetadata


@dataclass(eq=False)
class ConfigurationReader:
    """Reads the configuration file, ``server.properties``, ``meta.properties`` and the cluster metadata.

    Attributes:
        read_settings: reads the configuration file and applies the overrides of the command line.
        log_dirs: log dirs that the command line names; if there are none, those of ``log.dirs`` count.
        set_options: ``KEY=VALUE`` of each ``--set``.
        inputs: the files that ``read_settings`` reads with, too.
        keeps_settings: keep the last valid configuration file in force if the file becomes invalid; the result says
            why. Without this, and at the first reading, an invalid file is an error.
    """

    read_settings: Callable[[], Settings]
    log_dirs: Sequence[Path] = ()
    set_options: Sequence[str] = ()
    inputs: CommandFiles = field(default_factory=CommandFiles, kw_only=True)
    keeps_settings: bool = field(default=False, kw_only=True)
    _settings: Settings | None = None
    _remembered: _Remembered | None = None

    def read(self) -> LoadedLayers:
        """Read every source.

        Raises:
            InvalidConfigs: everything that is wrong in any layer.
            InvalidConfig: a stated ``metadata.log.dir`` has no cluster metadata; ``server.properties`` is no broker's.
            ConfigurationChanges: its files change faster than they can be read.
            LogDirNotThere: the stated ``metadata.log.dir`` is missing now, and a later call may find it.
            UnreadableFile, CorruptBatch: server.properties, meta.properties or the cluster metadata cannot be read, or
                are damaged.
        """
        kept = self._settings if self.keeps_settings else None
        try:
            loaded = self._read_as_one()
        except LogCleanerError as error:
            if kept is None:
                raise
            loaded = self._read_with(kept)._replace(rejected=str(error))
        else:
            self._settings = loaded.settings
        return loaded

    def _read_as_one(self) -> LoadedLayers:
        """Read every source, again and again, until no file changes during a reading. Raises: as ``read``."""
        for _ in range(_READINGS_MAX):
            loaded = self._read_with(self.read_settings())
            changed = [path for path in loaded.files if self.inputs.has_changed(path)]
            if not changed:
                return loaded
        raise ConfigurationChanges(changed[0])

    def _read_with(self, settings: Settings) -> LoadedLayers:
        path = settings.server_properties
        properties = read_server_properties(path, self.inputs) if path else None
        layers = build_layers(settings, server_properties=properties, set_options=self.set_options)
        stated = layers.broker_policy()
        log_dirs = _distinct(self.log_dirs or _stated_dirs(stated))
        cluster = self._cluster(stated, log_dirs) if settings.cluster_metadata else None
        own, unread = dict[Path, Properties](), dict[Path, UnreadableFile]()
        for log_dir in log_dirs:
            try:
                own[log_dir] = _own_properties(log_dir) or {}
            except UnreadableFile as error:
                if error.is_forbidden:
                    raise  # the user can mend that
                own[log_dir] = {}  # it fails alone
                unread[log_dir] = UnreadableFile(log_dir, f"{META_PROPERTIES_FILE}: {error.cause}")
        node_id = next(filter(None, map(_node_id, own.values())), None)
        layers = with_cluster_metadata(layers, cluster, node_id) if cluster else layers
        whose = _Whose(settings, properties, stated, cluster, node_id)
        facts = {path.resolve(): whose.facts(path, own[path]) for path in log_dirs}
        of_broker = misspelt(path, properties or {}) if path else ()
        ignored = (*of_broker, *removed_of(settings, self.set_options))
        loaded = LoadedLayers(layers, log_dirs, cluster, settings, facts, ignored=ignored, unread=unread)
        contents = {file: data for file in loaded.files if (data := self.inputs.data_of(file)) is not None}
        return loaded._replace(contents=contents)

    def _cluster(self, stated: BrokerPolicy, log_dirs: Sequence[Path]) -> ClusterMetadata | None:
        """Read the metadata log in ``metadata.log.dir`` if that is stated, else the first one in the log dirs.

        Search the configured log dirs even if the command line names others, because a broker keeps the metadata of all
        its topics in only one of its log dirs.

        Raises: UnreadableFile, too, if metadata that was read before is gone from a directory that is still configured,
            or if this user cannot look into a directory that may hold the metadata.
        """
        others = [path for path in _stated_dirs(stated) if path not in log_dirs]
        own_dir = [followed(Path(stated.metadata_log_dir))] if stated.metadata_log_dir is not None else []
        known = self._remembered.directory if self._remembered else None
        if known and known.parent in (*log_dirs, *others, *own_dir) and not known.is_dir():
            raise UnreadableFile(known, "the cluster metadata was read here before, and is gone")
        directory = _metadata_directory(stated, log_dirs, others)
        return despite_vanishing(partial(self._metadata_in, directory)) if directory else None

    def _metadata_in(self, directory: Path) -> ClusterMetadata:
        from storage.metadata.metadata_log import read_cluster_metadata  # noqa: PLC0415 - if there is any

        state = state_of_directory(directory)
        known = self._remembered
        if known is None or (known.directory, known.state) != (directory, state) or not state:
            known = self._remembered = _Remembered(directory, state, read_cluster_metadata(directory))
        return known.metadata


def load_layers(settings: Settings, log_dirs: Sequence[Path] = (), set_options: Sequence[str] = ()) -> LoadedLayers:
    """Read the configuration once. Arguments and errors: as for ``ConfigurationReader``."""
    return ConfigurationReader(lambda: settings, log_dirs, set_options).read()


def _distinct(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return each directory once, even if several paths or symlinks lead to it."""
    return tuple({_identity_of(path): followed(path) for path in reversed(paths)}.values())[::-1]


def _stated_dirs(stated: BrokerPolicy) -> tuple[Path, ...]:
    return tuple(followed(Path(name)) for name in stated.log_dirs)


def _identity_of(path: Path) -> tuple[object, ...]:
    try:
        status = path.stat()
    except OSError:
        return (str(path),)
    return status.st_dev, status.st_ino


def _metadata_directory(stated: BrokerPolicy, log_dirs: Sequence[Path], others: Sequence[Path]) -> Path | None:
    """Return the directory of the cluster metadata. ``others``: configured log dirs that the run does not open."""
    if stated.metadata_log_dir is None:
        for log_dir in (*log_dirs, *others):
            if not _is_open(log_dir):
                if log_dir in others and log_dir.is_dir():
                    raise UnreadableFile(log_dir, "this user may not look for the cluster metadata in it")
            elif (path := log_dir / METADATA_DIR).is_dir():
                return path
        return None
    found = followed(Path(stated.metadata_log_dir)) / METADATA_DIR
    if not found.is_dir():
        _check_mounted(Path(stated.metadata_log_dir))
        reason = (
            f"holds no {METADATA_DIR}; name the right directory, or set cluster.metadata = false in a --config FILE"
        )
        origin = stated.origin("metadata.log.dir")
        raise InvalidConfig("metadata.log.dir", stated.metadata_log_dir, reason, origin)
    return found


def _check_mounted(metadata_log_dir: Path) -> None:
    """Raise LogDirNotThere if a disk may not be mounted yet, because then the configuration is not wrong."""
    try:
        LogDir.open(metadata_log_dir)
    except LogDirNotThere as error:
        raise LogDirNotThere(error.path, f"metadata.log.dir names it, and it {error.cause}") from error
    except NotALogDir:
        return


def _is_open(log_dir: Path) -> bool:
    """Return whether this user may look into a directory. Raise nothing: opening the log dir reports its error."""
    if isinstance(log_dir, StoredPath):
        return log_dir.is_dir()
    with suppress(OSError):
        return os.access(log_dir, os.R_OK | os.X_OK, effective_ids=True) and log_dir.is_dir()
    return False


def _own_properties(log_dir: Path) -> Properties | None:
    """Return the properties in a log dir's ``meta.properties``; None if there is no such file."""
    path = log_dir / META_PROPERTIES_FILE
    data = read_file(path) if _is_open(log_dir) else None  # opening the log dir reports its error
    return None if data is None else parse_properties(data, str(path))


def _node_id(properties: Properties) -> str | None:
    """Return the id of the node; None if it is unknown. With an id below 0, a broker asks ZooKeeper for its id."""
    for key in _ID_KEYS:
        if key in properties and (found := properties[key].value.strip()) and not found.startswith("-"):
            return found
    return None


class _Whose(NamedTuple):
    """The sources that describe a broker, which may not be the broker of every log dir."""

    settings: Settings
    server_properties: Properties | None
    stated: BrokerPolicy
    cluster: ClusterMetadata | None
    node_id: str | None
    """Id of the broker whose dynamic configs were taken from the cluster metadata."""

    def facts(self, log_dir: Path, own: Properties) -> ConfigFacts:
        """Return the facts that show whether the configuration is that of this log dir's broker."""
        stated_by, stated_node_id = self._stated_id()
        beside = _own_properties(self.cluster.directory.parent) if self.cluster else None
        return ConfigFacts(
            stated_by=stated_by,
            stated_node_id=stated_node_id,
            own_node_id=_node_id(own),
            names_log_dir=self._names(log_dir),
            missing=self._missing(own),
            metadata_cluster_id=_cluster_id(beside or {}),
            own_cluster_id=_cluster_id(own),
            metadata_newest_ms=self.cluster.newest_record_ms if self.cluster else None,
            metadata_torn_bytes=self.cluster.torn_tail_bytes if self.cluster else 0,
        )

    def _stated_id(self) -> tuple[str, str | None]:
        if self.server_properties is not None and (stated := _node_id(self.server_properties)):
            return str(self.settings.server_properties), stated
        own_configs = self.cluster.broker_configs if self.cluster else {}
        return ("what the cluster metadata says of one broker", self.node_id) if own_configs else ("", None)

    def _missing(self, own: Properties) -> str | None:
        """Return the source that is missing to know the limits of this log dir's broker; None if none is missing."""
        if self.cluster and self.cluster.broker_configs and _node_id(own) is None:
            return "meta.properties names no node.id, and the cluster metadata has configs of single brokers"
        is_kraft = self.server_properties is not None and "process.roles" in self.server_properties
        if is_kraft and self.settings.cluster_metadata and self.cluster is None:
            remedy = "name its metadata.log.dir, or say cluster.metadata = false in a --config FILE"
            return f"no {METADATA_DIR} was found, in which topics state their own limits ({remedy})"
        return None

    def _names(self, log_dir: Path) -> bool:
        """Return whether ``server.properties`` names the log dir, or a configuration file names both."""
        if self.server_properties is None or _is_named(log_dir, self.server_properties):
            return True
        is_of_file = self.stated.stated["log.dirs"].layer is Layer.DEFAULTS and self.settings.names_both
        return is_of_file and any(_is_same(log_dir, Path(name)) for name in self.stated.log_dirs)


def _cluster_id(properties: Properties) -> str | None:
    return properties["cluster.id"].value.strip() or None if "cluster.id" in properties else None


def _is_named(log_dir: Path, properties: Properties) -> bool:
    """Return whether ``log.dirs`` (or ``log.dir``) names this directory, by any path.

    A file that names no directory says nothing about any, so the answer is True.
    """
    stated = properties.get("log.dirs") or properties.get("log.dir")
    if stated is None:
        return True
    return any(_is_same(log_dir, Path(name.strip())) for name in stated.value.split(",") if name.strip())


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
