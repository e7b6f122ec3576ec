"""The reader of the configuration file: TOML with Kafka's keys. It reports all errors at once, each with its line.

Only this module uses pydantic, for the shape of the file. ``policies`` checks the values of Kafka's keys. The line of a
key is found here, because ``tomllib`` does not tell it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cleaner.config.files import CommandFiles
from cleaner.config.layers import Settings
from policies.config.config_keys import BROKER_KEYS
from policies.config.config_sources import RawLayer, Said, names_of, nearest, read_layer
from policies.config.policy import Layer
from storage.errors import InvalidConfig, InvalidConfigs, UnreadableFile

KeyPath = tuple[str, ...]
"""The parts of a key in TOML: ``topics."orders".retention.ms`` has four."""

_TABLES: Final = ("defaults", "cleaner", "metrics", "report")
_CLEANER_PREFIX: Final = "log.cleaner."
_BROKER_NAMES: Final = frozenset(
    name for key in BROKER_KEYS for name in (key.name, *(synonym.name for synonym in key.synonyms))
)
_CLEANER_NAMES: Final = {
    short: name
    for name in names_of(Layer.DEFAULTS)
    if name in _BROKER_NAMES or name.startswith(_CLEANER_PREFIX)
    for short in (name, name.removeprefix(_CLEANER_PREFIX))
}
"""Key of ``[cleaner]``, with or without ``log.cleaner.`` -> Kafka's name."""
_DEFAULTS_NAMES: Final = frozenset(names_of(Layer.DEFAULTS)) - _BROKER_NAMES
_REASONS: Final = {
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "string_pattern_mismatch": "must be HOST:PORT",
    "literal_error": "must be few, all or none",
}


def read_settings(path: Path, inputs: CommandFiles | None = None) -> Settings:
    """Read a configuration file.

    Args:
        path: the file.
        inputs: the files of the command; without it, the file is read once.

    Raises:
        UnreadableFile: the file is missing, may not be read, or is not UTF-8.
        InvalidConfig: another option has read what can be read only once.
        InvalidConfigs: everything that is wrong in it, by line.
    """
    return parse_settings(_text_of(path, inputs or CommandFiles()), path)


def examine_settings(path: Path, inputs: CommandFiles) -> tuple[Settings, tuple[InvalidConfig, ...]]:
    """Read a configuration file. Return its sound settings, and its problems by line.

    Raises:
        UnreadableFile: the file is missing, may not be read, or is not UTF-8.
        InvalidConfig: another option has read what can be read only once.
        InvalidConfigs: the file is not TOML.
    """
    return _settings_and_problems(_text_of(path, inputs), path)


def parse_settings(text: str, path: Path) -> Settings:
    """Parse the text of a configuration file.

    Args:
        text: TOML.
        path: the file, for errors; relative paths in the file start from its directory.

    Raises:
        InvalidConfigs: everything that is wrong in it, by line.
    """
    settings, problems = _settings_and_problems(text, path)
    if problems:
        raise InvalidConfigs(problems)
    return settings


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each key and table header of a valid TOML text.

    A statement is the smallest run of lines that TOML accepts alone. So quoting, dotted keys and values over many lines
    need no parser here.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, statement, parsed in _statements(text):
        if statement.startswith("["):
            table, _ = next(leaves(parsed))
            lines.setdefault(table, number)
        else:
            for path, _ in leaves(parsed):
                lines.setdefault((*table, *path), number)
    return lines


def leaves(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the path and value of every key that is not a table; an empty table counts as a value."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class MetricsTable(_Strict):
    """The table ``[metrics]``."""

    listen: Annotated[str, Field(pattern=r"^\S+:\d{1,5}$")] | None = None
    per_partition: Literal["few", "all", "none"] = Field(default="few", alias="per.partition")
    textfile: Annotated[str, Field(min_length=1)] | None = None


class ReportTable(_Strict):
    """The table ``[report]``."""

    html: Annotated[str, Field(min_length=1)] | None = None


class FileTable(_Strict):
    """The file with joined dotted keys, without the broker keys above all tables."""

    server_properties: str | None = Field(None, alias="server.properties")
    cluster_metadata: bool = Field(True, alias="cluster.metadata")
    kafka_defaults: bool = Field(False, alias="kafka.defaults")
    defaults: dict[str, Any] = {}
    topics: dict[str, dict[str, Any]] = {}
    cleaner: dict[str, Any] = {}
    metrics: MetricsTable = MetricsTable()
    report: ReportTable = ReportTable()


def _text_of(path: Path, inputs: CommandFiles) -> str:
    try:
        return inputs.read(path, "--config").decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, str(error)) from error


def _settings_and_problems(text: str, path: Path) -> tuple[Settings, tuple[InvalidConfig, ...]]:
    try:
        entries = list(_entries(tomllib.loads(text), key_lines(text), path))
    except tomllib.TOMLDecodeError as error:
        reason = f"is not valid TOML: {error}"
        if path.suffix == ".properties":
            reason = f"is not valid TOML; a broker's server.properties is named by --server-properties FILE ({error})"
        raise InvalidConfigs((InvalidConfig(str(path), None, reason),)) from error
    problems = list(_repeated(entries))
    defaults = _defaults(entries, problems)
    topics = _topics(entries)
    read_layer(Layer.DEFAULTS, defaults, problems)
    for table in topics.values():
        read_layer(Layer.TOPICS_NAME, table, problems)
    file = _validated(entries, problems)
    settings = Settings(
        path=path,
        server_properties=path.parent / file.server_properties if file.server_properties else None,
        names_both=bool(file.server_properties) and "log.dirs" in defaults,
        cluster_metadata=file.cluster_metadata,
        kafka_defaults=file.kafka_defaults,
        defaults=defaults,
        topics=topics,
        metrics_listen=file.metrics.listen,
        metrics_per_partition=file.metrics.per_partition,
        metrics_textfile=path.parent / file.metrics.textfile if file.metrics.textfile else None,
        report_html=path.parent / file.report.html if file.report.html else None,
    )
    return settings, tuple(sorted(problems, key=_line_of))


def _defaults(entries: list[_Entry], problems: list[InvalidConfig]) -> RawLayer:
    """Return ``[defaults]``, ``[cleaner]`` and the broker keys above all tables, by Kafka's names."""
    found: dict[str, Said] = {}
    for entry in entries:
        name = _name_of_default(entry)
        if name in found:
            problems.append(entry.problem(f"is already stated at {found[name].origin}"))
        elif name is not None:
            found[name] = entry.said
        elif entry.location[0] == "cleaner" and len(entry.location) == 2:
            problems.append(entry.problem(f"no such key{nearest(entry.location[1], _CLEANER_NAMES)}"))
    return found


class _Entry(NamedTuple):
    """A key of the file. Its location has the table, for ``[topics]`` the topic's name or glob, and the joined name."""

    location: KeyPath
    said: Said

    @property
    def is_broker_key(self) -> bool:
        """Return whether this is a broker key above all tables, such as ``log.dirs``."""
        return len(self.location) == 1 and self.location[0] in _BROKER_NAMES

    def problem(self, reason: str) -> InvalidConfig:
        return InvalidConfig(".".join(self.location), None, reason, self.said.origin)


def _name_of_default(entry: _Entry) -> str | None:
    match entry.location:
        case ("defaults", name):
            return name
        case ("cleaner", name):
            return _CLEANER_NAMES.get(name)
        case (name,) if entry.is_broker_key:
            return name
    return None


def _topics(entries: list[_Entry]) -> dict[str, RawLayer]:
    tables: dict[str, dict[str, Said]] = {}
    for entry in entries:
        match entry.location:
            case ("topics", pattern, name):
                tables.setdefault(pattern, {})[name] = entry.said
            case ("topics", pattern):
                tables.setdefault(pattern, {})
    return dict(tables)


def _validated(entries: list[_Entry], problems: list[InvalidConfig]) -> FileTable:
    """Check the file's shape with pydantic; if it has problems, add them and return the defaults.

    The path of ``server.properties`` is kept, because the caller checks that file, too.
    """
    document: dict[str, Any] = {}
    for entry in entries:
        if not entry.is_broker_key:
            _put(document, entry.location, entry.said.value)
    try:
        return FileTable.model_validate(document)
    except ValidationError as error:
        by_location = {entry.location: entry for entry in entries}
        for found in error.errors():
            entry = by_location[tuple(map(str, found["loc"]))]
            problems.append(entry.problem(_reason(found["type"], found["msg"], entry.location)))
        named = document.get("server.properties")
        return FileTable.model_validate({"server.properties": named} if isinstance(named, str) else {})


def _put(document: dict[str, Any], location: KeyPath, value: object) -> None:
    *tables, name = location
    for table in tables:
        document = document.setdefault(table, {})
    document.setdefault(name, value)


def _reason(kind: str, message: str, location: KeyPath) -> str:
    if kind == "extra_forbidden" and len(location) == 1 and location[0] in _DEFAULTS_NAMES:
        return "no such key here; it goes into the table [defaults], or into [topics.NAME]"
    if kind == "extra_forbidden" and len(location) == 1:
        return f"no such key{_near_above_tables(location[0])}"
    if kind == "extra_forbidden":
        return f"no such key{nearest(location[-1], _known_names(location))}"
    return _REASONS.get(kind, message)


def _near_above_tables(name: str) -> str:
    """Return what the user probably meant by a name above all tables: a table, a key of a table, or a key above all
    tables.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake asks for it

    table, _, rest = name.partition(".")
    if rest and (found := get_close_matches(table, (*_TABLES, "topics"), n=1, cutoff=0.8)):
        meant = f"{found[0]}.{rest.partition('.')[0]}" if found[0] == "topics" else found[0]
        return f"; did you mean the table [{meant}]?"
    here = dict.fromkeys([*_names_in(FileTable), *_BROKER_NAMES])
    near = nearest(name, {**here, **dict.fromkeys(_DEFAULTS_NAMES)})
    is_here = not near or near.removeprefix("; did you mean ").removesuffix("?") in here
    return near if is_here else f"{near} It goes into the table [defaults], or into [topics.NAME]"


def _names_in(table: type[_Strict]) -> Iterator[str]:
    return (field.alias or name for name, field in table.model_fields.items())


def _known_names(location: KeyPath) -> Mapping[str, object]:
    if location[0] in ("metrics", "report"):
        return dict.fromkeys(_names_in(MetricsTable if location[0] == "metrics" else ReportTable))
    return dict.fromkeys([*_names_in(FileTable), *_BROKER_NAMES])


def _repeated(entries: list[_Entry]) -> Iterator[InvalidConfig]:
    """Report keys that are stated twice; TOML takes ``"retention.ms"`` and ``retention.ms`` for two keys."""
    seen: dict[KeyPath, _Entry] = {}
    for entry in entries:
        if (first := seen.setdefault(entry.location, entry)) is not entry:
            yield entry.problem(f"is already stated in line {first.said.line}")


def _entries(document: Mapping[str, Any], lines: Mapping[KeyPath, int], path: Path) -> Iterator[_Entry]:
    for key_path, value in leaves(document):
        line = lines[key_path]
        yield _Entry(_location(key_path), Said(value, f"{path} line {line}", str(path.absolute()), line))


def _location(path: KeyPath) -> KeyPath:
    """Join the parts of a key: (topics, orders, retention, ms) becomes (topics, orders, retention.ms)."""
    places = 2 if path[0] == "topics" else 1 if path[0] in _TABLES else 0
    return (*path[:places], ".".join(path[places:])) if len(path) > places else path


def _line_of(problem: InvalidConfig) -> int:
    """Return the line of a problem. Every origin ends with the line, see ``_entries``."""
    return int(problem.where.rpartition(" ")[2])


def _statements(text: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield the line, text and parsed value of each statement: a key or a table header."""
    statement, first = "", 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement, first = (f"{statement}\n{line}", first) if statement else (line, number)
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # the value continues in the next line
        if parsed:
            yield first, statement.lstrip(), parsed
        statement = ""
