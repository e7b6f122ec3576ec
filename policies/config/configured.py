"""The configuration of a run, read at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from policies.config.config_layers import ConfigLayers
from policies.facts import ConfigFacts


class Configured(NamedTuple):
    """The configuration that a run acts on. A run reads it again under the locks of the log dirs.

    Attributes:
        log_dirs: directories that a broker names in ``log.dirs``.
        layers: all stated values, by layer.
        facts: log dir, resolved -> the facts that tell whether this is the configuration of its broker.
        name: the file that a person edits: the configuration file, else ``server.properties``. None if there is no
            file: then everything was stated for this run, and the reload guard has nothing to compare.
    """

    log_dirs: tuple[Path, ...]
    layers: ConfigLayers
    facts: Mapping[Path, ConfigFacts] = {}
    name: str | None = None
