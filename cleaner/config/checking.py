"""The check of configuration files. It finds all problems of all files at once, and touches no log dir."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from cleaner.config.files import CommandFiles, misspelt, read_server_properties
from cleaner.config.layers import Settings, build_layers, removed_of
from cleaner.config.settings import examine_settings
from policies.config.config_keys import TOPIC_KEY
from policies.config.config_layers import ConfigLayers
from policies.config.config_values import show_value
from policies.config.policy import Layer
from policies.reasons import duration
from storage.errors import InvalidConfig, InvalidConfigs, UnreadableFile
from storage.properties import Property

_MOSTLY_DAYS: Final = frozenset({"retention.ms", "segment.ms", "delete.retention.ms", "max.compaction.lag.ms"})
_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_SECONDS = 1_000, 60_000, 3_600_000, 86_400
_KIB: Final = 1 << 10
_SEGMENT: Final = "segment.bytes"


def check_files(
    config: Path | None, overridden: Callable[[Settings], Settings], set_options: Sequence[str], inputs: CommandFiles
) -> tuple[Settings, ConfigLayers]:
    """Check a configuration file, the ``server.properties`` that it names, and the values of the command line.

    Args:
        config: the configuration file; None if there is none.
        overridden: replaces the settings that the command line overrides.
        set_options: ``KEY=VALUE`` of each ``--set``.
        inputs: the files of the command.

    Returns:
        The settings, and the layers without the cluster metadata, if nothing is wrong.

    Raises:
        InvalidConfigs: everything that is wrong, each problem once.
    """
    problems: list[InvalidConfig] = []
    settings = overridden(_examined(config, inputs, problems) if config else Settings())
    properties = _properties_of(settings, inputs, problems)
    layers = None
    try:
        layers = build_layers(settings, server_properties=properties, set_options=set_options)
    except InvalidConfigs as found:
        problems += found.problems
    if problems or layers is None:
        raise InvalidConfigs(tuple({str(problem): problem for problem in problems}.values()))
    return settings, layers


def slips(layers: ConfigLayers) -> Iterator[str]:
    """Yield a warning for each limit below an hour or a segment: the user probably meant another unit."""
    stated_broadly = [table for layer, table in sorted(layers.broad.items()) if layer is not Layer.KAFKA_DEFAULT]
    sizes = [table[_SEGMENT].value for _, table in sorted(layers.broad.items()) if _SEGMENT in table]
    for table in (*stated_broadly, *(table for _, table in layers.topics_file)):
        segment_bytes = table[_SEGMENT].value if _SEGMENT in table else sizes[-1]
        for stated in table.values():
            value = stated.value
            if not isinstance(value, int):
                continue
            if stated.key in _MOSTLY_DAYS and 0 <= value < _HOUR_MS:
                yield f"{stated.key} is {duration(value)} ({stated.origin}): less than an hour{_days_meant(value)}"
            if stated.key == "retention.bytes" and isinstance(segment_bytes, int) and 0 <= value < segment_bytes:
                sizes_told = f"less than a segment, which has {_told_size(segment_bytes)}"
                meant = f"; did you mean {value}GiB?" if 0 < value < _KIB else ""
                yield f"{stated.key} is {_told_size(value)} ({stated.origin}): {sizes_told}{meant}"


def _days_meant(value: int) -> str:
    """Return the span that the user probably meant by a number of milliseconds below an hour."""
    if value == 0:
        return ""
    if value < _SECOND_MS:
        return f"; did you mean {value}d?"
    if value % _DAY_SECONDS and value % _MINUTE_MS == 0:  # 30m, typed for 30d
        return f"; did you mean {value // _MINUTE_MS}d?"
    return f"; {value} seconds are {duration(value * _SECOND_MS)}: did you mean that?"


def _told_size(value: int) -> str:
    return "1 byte" if value == 1 else show_value(TOPIC_KEY["retention.bytes"], value)


def ignored_of(settings: Settings, inputs: CommandFiles) -> tuple[str, ...]:
    """Return a sentence for each key that is ignored: misspelt in ``server.properties``, or gone from logcleaner.

    A broker starts with such a file, so these keys are no problems. Raises: as ``read_server_properties``.
    """
    path = settings.server_properties
    of_broker = misspelt(path, read_server_properties(path, inputs)) if path else ()
    return *of_broker, *removed_of(settings)


def _examined(path: Path, inputs: CommandFiles, problems: list[InvalidConfig]) -> Settings:
    try:
        settings, found = examine_settings(path, inputs)
    except InvalidConfigs as error:
        problems += error.problems
    except InvalidConfig as error:
        problems.append(error)
    except UnreadableFile as error:
        problems.append(InvalidConfig("--config", str(path), f"cannot be read: {error.cause}"))
    else:
        problems += found
        return settings
    return Settings()


def _properties_of(
    settings: Settings, inputs: CommandFiles, problems: list[InvalidConfig]
) -> dict[str, Property] | None:
    if settings.server_properties is None:
        return None
    try:
        return read_server_properties(settings.server_properties, inputs)
    except InvalidConfig as error:
        problems.append(error)
    except UnreadableFile as error:
        where = str(settings.path or "")
        problems.append(InvalidConfig("server.properties", str(error.path), f"cannot be read: {error.cause}", where))
    return None
