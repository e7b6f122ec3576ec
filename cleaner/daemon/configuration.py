"""The configuration in force.

A new configuration is read and checked as a whole before it replaces the one in force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from cleaner.config.files import State, state_of_directory, state_of_file
from cleaner.config.layers import LoadedLayers
from cleaner.config.reader import METADATA_DIR
from policies.config.config_layers import ConfigLayers
from policies.config.loosened import FileLayers, Loosened, loosened
from policies.config.policy import BrokerPolicy
from storage.directory import is_read_once
from storage.errors import LogCleanerError
from storage.names import META_PROPERTIES_FILE

_ABSENT = "unset"


class Configuration:
    """The configuration in force. ``reload`` replaces it in one step, or raises and keeps it."""

    def __init__(self, load: Callable[[], LoadedLayers]) -> None:
        """Load the configuration for the first time.

        Args:
            load: reads all sources anew and checks them.

        Raises: as ``ConfigurationReader.read``.
        """
        self._load = load
        self.unreadable: str | None = None
        """Why the last reading of the sources failed; None if it did not. While it is set, nothing may be changed."""
        self.loosened_by_cluster: tuple[Loosened, ...] = ()
        """The keys by which the last reading of the cluster metadata let more go than the reading before."""
        self._hold(_resolved(load()), ())
        self.reload()  # only now are the sources known whose state must be noted before a reading

    def _hold(self, loaded: LoadedLayers, seen: State) -> None:
        """Put ``loaded`` in force. ``seen``: the states of its sources before they were read."""
        self.loaded = loaded
        self.broker: BrokerPolicy = loaded.layers.broker_policy()
        self._seen = seen

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the files whose change asks for a reload. A pipe is left out, because it cannot be read again."""
        return tuple(path.absolute() for path in self.loaded.files if not is_read_once(path))

    def terms_of(self, log_dir: Path, topic: str) -> object:
        """Return the values that decide on changes to a topic in a log dir; None while nothing may be changed there."""
        if self.unreadable or log_dir not in self.loaded.log_dirs:
            return None
        policies = [self.loaded.layers.policy_for(topic, compacted_before=before) for before in (False, True)]
        values = [replace(policy, stated={}) for policy in policies]  # the place of a statement decides nothing
        return self.broker.log_cleaner_enable, values, self.loaded.facts.get(log_dir)

    def is_stale(self) -> bool:
        """Return whether a source changed since the last reading, successful or not.

        A broker may change the metadata.
        """
        return self._state() != self._seen

    def reload(self) -> list[str]:
        """Read the sources, and put them in force. Return each key that changed, with both values.

        Raises: as ``ConfigurationReader.read``; the earlier configuration then stays in force, and ``unreadable`` says
        why.
        """
        seen = self._state()
        try:
            loaded = _resolved(self._load())
        except (LogCleanerError, OSError) as error:
            self._seen, self.unreadable = seen, one_line(str(error))
            raise
        self.unreadable = None
        changes = list(differences(self.loaded, loaded))
        self.loosened_by_cluster = _loosened_by_cluster(self.loaded, loaded)
        self._hold(loaded, seen)
        return changes

    def _state(self) -> State:
        dirs = self.loaded.log_dirs
        places = dict.fromkeys((*dirs, *self._metadata_dirs()))
        metadata = [(str(path), state_of_directory(path / METADATA_DIR)) for path in places]
        files = (*self.files, *(path / META_PROPERTIES_FILE for path in dirs))
        return (*((str(path), state_of_file(path)) for path in files), *metadata)

    def _metadata_dirs(self) -> Iterator[Path]:
        """Return the directories in which the cluster metadata should lie, or was found."""
        if self.broker.metadata_log_dir:
            yield Path(self.broker.metadata_log_dir)
        if self.loaded.cluster:
            yield self.loaded.cluster.directory.parent


def _resolved(loaded: LoadedLayers) -> LoadedLayers:
    """Return the log dirs by their resolved paths. Plans use resolved paths, so that links and relative paths match."""
    return loaded._replace(log_dirs=tuple(path.resolve() for path in loaded.log_dirs))


def _loosened_by_cluster(before: LoadedLayers, after: LoadedLayers) -> tuple[Loosened, ...]:
    """Return the keys that let more go because the cluster metadata changed, apart from changes of files."""
    if before.cluster is after.cluster or not after.cluster:
        return ()
    earlier = FileLayers.of(after.layers).within(before.layers)
    return loosened(earlier, after.layers, set(before.layers.topic_ids or ()) & set(after.layers.topic_ids or ()))


def differences(before: LoadedLayers, after: LoadedLayers) -> Iterator[str]:
    """``[topics."orders"] retention.ms: 7d -> 3d``, sorted by place; a value that two layers state has two places."""
    old, new = _stated(before), _stated(after)
    for place in sorted(old.keys() | new.keys()):
        was, becomes = old.get(place, _ABSENT), new.get(place, _ABSENT)
        if was != becomes:
            yield f"{place}: {was} -> {becomes}"


def _stated(loaded: LoadedLayers) -> Mapping[str, str]:
    settings = loaded.settings
    others = {
        "metrics.listen": settings.metrics_listen,
        "report.html": str(settings.report_html or ""),
        "log dirs": ",".join(map(str, loaded.log_dirs)),
    }
    return {place: value for place, value in others.items() if value} | dict(_stated_in(loaded.layers))


def _stated_in(layers: ConfigLayers) -> Iterator[tuple[str, str]]:
    yield from ((f"cluster metadata, topic {topic}", topic_id) for topic, topic_id in (layers.topic_ids or {}).items())
    for layer, values in layers.broad.items():
        yield from ((f"{layer.title} {key}", stated.shown) for key, stated in values.items())
    for topic, values in layers.topic_metadata.items():
        yield from ((f"cluster metadata, topic {topic} {key}", stated.shown) for key, stated in values.items())
    for pattern, values in layers.topics_file:
        yield from ((f'[topics."{pattern}"] {key}', stated.shown) for key, stated in values.items())


def one_line(text: str) -> str:
    """Return a text of several lines as one line."""
    return text.replace("\n", "; ")
