"""The configuration of a run, as it was read at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from policies.config.config_layers import ConfigLayers
from policies.facts import ConfigFacts


class Configured(NamedTuple):
    """What a run acts on: it is read again under the locks of the log dirs.

    Attributes:
        log_dirs: directories that a broker names in ``log.dirs``.
        layers: everything that was stated.
        facts: log dir, resolved -> what tells whether this is the configuration of its broker.
    """

    log_dirs: tuple[Path, ...]
    layers: ConfigLayers
    facts: Mapping[Path, ConfigFacts] = {}
