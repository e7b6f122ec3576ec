"""The tables of keys in docs/configuration.md: what each one is and does is told by the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cleaner.config.settings import FileTable, MetricsTable, ReportTable
from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS, ConfigKey
from policies.config.key_descriptions import (
    FILE_SETTINGS,
    MEANINGS,
    METRICS_SETTINGS,
    REPORT_SETTINGS,
    default_of,
    type_of,
)
from policies.config.policy import Layer
from tests.docs.tables import table


def layers() -> str:
    """Return the list of layers, lowest first."""
    return "\n".join(f"{layer + 1}. {layer.title}" for layer in Layer)


def keys() -> str:
    """Return the tables of all keys."""
    of_topics = [key for key in TOPIC_KEYS if key.name in MEANINGS]
    of_brokers = [key for key in BROKER_KEYS if key.name in MEANINGS]
    others = [key for key in (*TOPIC_KEYS, *BROKER_KEYS) if key.name not in MEANINGS]
    sections = [
        ("Keys above all tables", "These are no keys of Kafka.", _of_file(FileTable, FILE_SETTINGS)),
        ("Keys of `[metrics]`", "", _of_file(MetricsTable, METRICS_SETTINGS)),
        ("Keys of `[report]`", "", _of_file(ReportTable, REPORT_SETTINGS)),
        ("Topic keys", f"For `[defaults]`, `[topics]` and `--set`. {_OURS}", _acted_on(of_topics)),
        ("Broker keys", f"For all topics alike. {_OURS}", _acted_on(of_brokers)),
        ("Keys that change nothing", "logcleaner reads and checks these, and does not act on them.", _others(others)),
    ]
    return "\n\n".join("\n\n".join(filter(None, (f"## {title}", *rest))) for title, *rest in sections)


_OURS: Final = "Kafka does not know the keys that are marked as ours."


def _acted_on(keys_: Iterable[ConfigKey]) -> str:
    rows = ((*_name_type_default(key), MEANINGS[key.name], _synonyms(key)) for key in keys_)
    return table(("Key", "Type", "Default", "", "In server.properties"), rows)


def _others(keys_: Iterable[ConfigKey]) -> str:
    return table(
        ("Key", "Type", "Default", "In server.properties"),
        ((*_name_type_default(key), _synonyms(key)) for key in keys_),
    )


def _of_file(model: type[FileTable | MetricsTable | ReportTable], meanings: Mapping[str, str]) -> str:
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    return table(
        ("Key", "Default", ""),
        ((f"`{name}`", _default_in_toml(fields[name].default), told) for name, told in meanings.items()),
    )


def _default_in_toml(value: object) -> str:
    return "" if value is None else f"`{str(value).lower()}`"


def _name_type_default(key: ConfigKey) -> tuple[str, str, str]:
    return f"`{key.name}`{' (ours)' if key.ours else ''}", type_of(key), default_of(key)


def _synonyms(key: ConfigKey) -> str:
    return ", ".join(f"`{synonym.name}`" for synonym in key.synonyms if synonym.name != key.name)
