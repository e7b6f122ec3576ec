"""The part of a configuration that its files state: what an edit changes, and what a cluster does not.

The reload guard compares two of these under the same cluster metadata. So it sees what a person saved, whatever the
cluster changed meanwhile, and whatever ``--set`` says of one run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from policies.config.config_keys import BROKER_KEY, TOPIC_KEY, Value
from policies.config.config_layers import ConfigLayers, kafka_defaults
from policies.config.config_sources import StatedLayer
from policies.config.loosened import LIMITING_KEYS
from policies.config.policy import NOBODY, Layer, Stated

_OF_FILES: Final = (Layer.SERVER_PROPERTIES, Layer.DEFAULTS)
_Values = Mapping[str, Value]


class FileLayers(NamedTuple):
    """The keys that let records go, as files state them.

    Attributes:
        limits_stated: Kafka's default limits hold, because ``server.properties`` or ``kafka.defaults`` says so.
        broad: the layers of files that name no topic.
        topics: (name or glob, table) of ``[topics]``, the strongest last; empty tables, too: they name topics.
        has_metadata: there was cluster metadata beside the files.
    """

    limits_stated: bool
    broad: Mapping[Layer, StatedLayer]
    topics: tuple[tuple[str, StatedLayer], ...]
    has_metadata: bool

    @classmethod
    def of(cls, layers: ConfigLayers) -> FileLayers:
        """Return what the files of a configuration state."""
        return cls(
            layers.broad[Layer.KAFKA_DEFAULT]["retention.ms"].origin != NOBODY,
            {layer: _limiting(layers.broad.get(layer, {})) for layer in _OF_FILES},
            tuple((pattern, _limiting(table)) for pattern, table in layers.topics_file),
            layers.topic_ids is not None,
        )

    def within(self, layers: ConfigLayers) -> ConfigLayers:
        """Return these layers beside the cluster metadata and the ``--set`` of a configuration of today."""
        broad = {**layers.broad, **self.broad, Layer.KAFKA_DEFAULT: kafka_defaults(limits_stated=self.limits_stated)}
        return replace(layers, broad=broad, topics_file=self.topics)

    @property
    def values(self) -> object:
        """The values alone, without the places that state them: two that are equal here let the same go."""
        tables = [*self.broad.items(), *self.topics]
        return self.limits_stated, self.has_metadata, [(name, _values(table)) for name, table in tables]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON value from which ``from_json`` makes an equal one."""
        return {
            "limits_stated": self.limits_stated,
            "has_metadata": self.has_metadata,
            "broad": {layer.name: _shown(table) for layer, table in self.broad.items()},
            "topics": [[pattern, _shown(table)] for pattern, table in self.topics],
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> FileLayers:
        """Return what ``as_json`` wrote; keys that this version does not know are left out.

        Raises: KeyError, TypeError, ValueError.
        """
        return cls(
            bool(said["limits_stated"]),
            {layer: _read(layer, said["broad"][layer.name]) for layer in _OF_FILES},
            tuple((str(pattern), _read(Layer.TOPICS_NAME, table)) for pattern, table in said["topics"]),
            bool(said["has_metadata"]),
        )


def _limiting(table: StatedLayer) -> StatedLayer:
    return {key: stated for key, stated in table.items() if key in LIMITING_KEYS}


def _values(table: StatedLayer) -> _Values:
    return {key: stated.value for key, stated in table.items()}


def _shown(table: StatedLayer) -> dict[str, list[Any]]:
    return {key: [stated.value, stated.layer.name, stated.origin, stated.name] for key, stated in table.items()}


def _read(layer: Layer, said: Mapping[str, Any]) -> StatedLayer:
    found = {}
    for key, (value, of_layer, origin, name) in said.items():
        if key in TOPIC_KEY or key in BROKER_KEY:
            parsed = tuple(value) if isinstance(value, list) else value
            of = Layer[of_layer] if layer is Layer.TOPICS_NAME else layer
            found[key] = Stated(key, parsed, of, f"confirmed last: {str(origin).removeprefix(_BEFORE)}", str(name))
    return found


_BEFORE: Final = "confirmed last: "
