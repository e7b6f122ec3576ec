"""Read all options of a frame into one value. An option that Spark's Kafka source has bears the same name here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from cleaner.arrow.schema import BATCH_COLUMNS, CORRUPT_BATCH, KEY_COLUMNS, RECORD_COLUMNS, TYPES
from policies.config.config_sources import nearest
from storage.codecs.compression import Compression
from storage.errors import InvalidConfig
from storage.log import LogConfig, SpecialTimestamp
from storage.names import TopicPartition
from storage.scan.partitions import EVERYTHING, Choice, ReplicaChoice, parse_partitions, parse_pattern, parse_topics
from storage.stores.opening import configure
from storage.stores.paths import located

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = TypeVar("Value")

PARTITION_BYTES_DEFAULT: Final = 128 << 20
"""The default size of an extent, which is Spark's own for files (``spark.sql.files.maxPartitionBytes``)."""

_WHERE: Final = "kafka-log"
_NAMES: Final = (
    "path", "paths", "subscribe", "subscribePattern", "assign",
    "columns", "keysOnly", "includeMetadata", "mode", "maxPartitionBytes", "isolation.level",
    "startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp", "startingOffsetsByTimestampStrategy",
    "endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp", "failOnDataLoss", "maxOffsetsPerTrigger",
    "maxBytesPerTrigger", "replica", "tier", "tierKeys",
)  # fmt: skip
_EPOCH_MS_MAX: Final = 2**63 - 1
_SEGMENT_BYTES_MAX: Final = 2**31 - 1
_S3A: Final = {
    "access_key_id": "access.key",
    "secret_access_key": "secret.key",
    "session_token": "session.token",
    "endpoint": "endpoint",
    "region": "endpoint.region",
}
"""Keys of Hadoop's S3A. Path style is what our client uses with any endpoint."""
_SINK_NAMES: Final = ("path", "topic", "compression", "segment.bytes")


class Mode(StrEnum):
    """The treatment of a damaged batch. The values are those of Spark's own file formats."""

    FAILFAST = "FAILFAST"
    PERMISSIVE = "PERMISSIVE"
    DROPMALFORMED = "DROPMALFORMED"


def has_jvm(spark: SparkSession) -> bool:
    """Return whether a session has its JVM in this process: that of Spark Connect has not."""
    return hasattr(spark, "_jsparkSession")


def s3_of_session(spark: SparkSession) -> dict[str, str]:
    """Return the configuration of buckets that a session with a JVM states now."""
    return s3_of(spark.sparkContext._jsc.hadoopConfiguration().get)


def s3_of(hadoop: Callable[[str], str | None]) -> dict[str, str]:
    """Return the configuration of buckets that Hadoop's keys ``fs.s3a.*`` state; none without any of them.

    Args:
        hadoop: returns the value of a key; None without one.
    """
    stated = {ours: value for ours, key in _S3A.items() if (value := hadoop(f"fs.s3a.{key}"))}
    if "Anonymous" in (hadoop("fs.s3a.aws.credentials.provider") or ""):
        stated["skip_signature"] = "true"
    endpoint = stated.get("endpoint", "")
    if endpoint and "://" not in endpoint:
        is_plain = (hadoop("fs.s3a.connection.ssl.enabled") or "").lower() == "false"
        stated["endpoint"] = f"{'http' if is_plain else 'https'}://{endpoint}"
    if stated.get("endpoint", "").endswith("//s3.amazonaws.com"):
        del stated["endpoint"]  # by default the region names the server
    return stated


@dataclass(frozen=True, slots=True)
class Bound:
    """The beginning or the end of a read."""

    partitions: Mapping[TopicPartition, int] | None
    """An offset for each partition, or epoch ms with ``by_timestamp``; None: ``of_all`` holds for all partitions."""
    of_all: int = SpecialTimestamp.EARLIEST
    by_timestamp: bool = False
    falls_back: bool = True
    """True if a timestamp later than every record means the log end; else such a timestamp is an error."""


LOG_END: Final = Bound(None, SpecialTimestamp.LATEST)


@dataclass(frozen=True, slots=True)
class Options:
    """All options, checked."""

    paths: tuple[str, ...]
    """Globs of log dirs or partition directories."""
    choice: Choice
    columns: tuple[str, ...]
    mode: Mode
    partition_bytes_max: int
    read_committed: bool
    starting: Bound | None
    """The beginning. If it is None, a batch begins at the earliest offset, and a stream at the latest."""
    ending: Bound
    fail_on_data_loss: bool
    offsets_per_trigger_max: int | None
    bytes_per_trigger_max: int | None = None
    """The bytes of ``.log`` files that a micro-batch reads. Spark takes one limit: this one or that of offsets."""
    replica: ReplicaChoice = ReplicaChoice.ERROR
    has_tier: bool = False
    """Whether ``paths`` is the view of a tier and of the log dirs that were named."""
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The configuration of buckets, of ``s3_of``. It holds secrets: nothing prints it."""

    def open_stores(self) -> None:
        """Have this process read buckets as the session says that registered the source."""
        open_stores(self.s3)
        if self.has_tier:
            import storage.tiers.view  # noqa: F401, PLC0415 - opens such paths, in the workers too


def open_stores(s3: Mapping[str, str]) -> None:
    """Have this process read and write buckets with the configuration of ``s3_of``, if it states any."""
    if s3:
        configure("s3", s3)


def parse_options(given: Mapping[str, str]) -> Options:
    """Read the options of a read. Upper and lower case in names are the same: Spark does not keep them apart.

    Raises: InvalidConfig: an option is unknown, or its value is wrong.
    """
    said = _known(given, _NAMES)
    mode = _read(said, "mode", _mode, Mode.FAILFAST)
    if "maxBytesPerTrigger" in said and "maxOffsetsPerTrigger" in said:
        cause = "a micro-batch has one limit: say this one or maxOffsetsPerTrigger"
        raise InvalidConfig("maxBytesPerTrigger", said["maxBytesPerTrigger"], cause, _WHERE)
    return Options(
        paths=_paths(said),
        has_tier="tier" in said,
        choice=_choice(said),
        columns=_columns(said, mode),
        mode=mode,
        partition_bytes_max=_read(said, "maxPartitionBytes", _positive, PARTITION_BYTES_DEFAULT),
        read_committed=_read(said, "isolation.level", _isolation, False),
        starting=_starting(said),
        ending=_ending(said),
        fail_on_data_loss=_read(said, "failOnDataLoss", _boolean, True),
        offsets_per_trigger_max=_read(said, "maxOffsetsPerTrigger", _positive, None),
        bytes_per_trigger_max=_read(said, "maxBytesPerTrigger", _positive, None),
        replica=_read(said, "replica", _replica, ReplicaChoice.ERROR),
    )


def option_texts(given: Mapping[str, object]) -> dict[str, str]:
    """Return options as Spark passes them: all values are texts, and a mapping or list is JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of a write, checked."""

    log_dir: Path
    topic: str | None
    """The topic of all rows; if it is None, each row's column names its topic."""
    compression: Compression
    segment_bytes: int


def parse_sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Read the options of a write. Raises: InvalidConfig."""
    said = _known(given, _SINK_NAMES)
    if not said.get("path"):
        raise InvalidConfig("path", None, 'name a log dir: save("/var/lib/kafka/data")', _WHERE)
    return SinkOptions(
        log_dir=located(said["path"]).absolute(),
        topic=said.get("topic"),
        compression=_read(said, "compression", _compression, Compression.NONE),
        segment_bytes=_read(said, "segment.bytes", _segment_bytes, LogConfig().segment_bytes),
    )


def _known(given: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return the options under their names in ``names``. Raises: InvalidConfig for an unknown option."""
    return {_known_name(name, names): value for name, value in given.items()}


def _known_name(name: str, names: Sequence[str]) -> str:
    for known in names:
        if known.lower() == name.lower():
            return known
    raise InvalidConfig(name, None, f"unknown option{nearest(name, dict.fromkeys(names))}", _WHERE)


def _read(said: Mapping[str, str], name: str, parse: Callable[[str], Value], default: Value) -> Value:
    if name not in said:
        return default
    try:
        return parse(said[name])
    except ValueError as error:
        raise InvalidConfig(name, said[name], str(error), _WHERE) from error


def _one_of(values: Mapping[str, Value]) -> Callable[[str], Value]:
    """Return a parser of the words that stand for some values. Upper and lower case are the same."""

    def parse(text: str) -> Value:
        if text.lower() not in values:
            raise ValueError(" or ".join(values))
        return values[text.lower()]

    return parse


_boolean: Final = _one_of({"true": True, "false": False})
_falls_back: Final = _one_of({"error": False, "latest": True})
_mode: Final = _one_of({mode.lower(): mode for mode in Mode})
_compression: Final = _one_of({codec.name.lower(): codec for codec in Compression})


def _isolation(text: str) -> bool:
    if text not in ("read_committed", "read_uncommitted"):
        raise ValueError("read_committed or read_uncommitted")
    return text == "read_committed"


def _replica(text: str) -> ReplicaChoice:
    if text not in set(ReplicaChoice):
        raise ValueError("error, first or newest")
    return ReplicaChoice(text)


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError("a whole number of at least 1")
    return int(text)


def _segment_bytes(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _SEGMENT_BYTES_MAX:
        raise ValueError(f"a whole number from 1 to {_SEGMENT_BYTES_MAX}, as in Kafka")
    return int(text)


def _epoch_ms(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _EPOCH_MS_MAX:
        raise ValueError("epoch ms, a whole number")
    return int(text)


def _paths(said: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths. ``load`` passes one path as ``path`` (with commas, as in ``log.dirs``), a list as ``paths``."""
    none: list[str] = []
    listed = _read(said, "paths", lambda text: [str(path) for path in json.loads(text)], none)
    given = (*said.get("path", "").split(","), *listed)
    paths = tuple(path.strip() for path in given if path.strip())
    if "tier" in said:
        return (_with_tier(said, paths),)
    if not paths:
        raise InvalidConfig("path", None, 'name a log dir: load("/var/lib/kafka/data")', _WHERE)
    return paths


def _with_tier(said: Mapping[str, str], paths: Sequence[str]) -> str:
    """Return the path of the log dir that shows a tier and log dirs as one. Raises: InvalidConfig."""
    from glob import has_magic  # noqa: PLC0415 - with a tier alone

    from storage.tiers.view import view_of  # noqa: PLC0415

    for path in filter(has_magic, paths):
        raise InvalidConfig("path", path, "a glob cannot be joined with a tier: name the log dirs", _WHERE)
    keys = [key.strip() for key in said.get("tierKeys", "").split(",") if key.strip()]
    return str(view_of(_read(said, "tier", located, Path()), map(located, paths), keys))


def _choice(said: Mapping[str, str]) -> Choice:
    parsers = {"subscribe": parse_topics, "subscribePattern": parse_pattern, "assign": parse_partitions}
    named = [name for name in parsers if name in said]
    if len(named) > 1:
        raise InvalidConfig(named[1], said[named[1]], "say one of subscribe, subscribePattern and assign", _WHERE)
    return _read(said, named[0], parsers[named[0]], EVERYTHING) if named else EVERYTHING


def _columns(said: Mapping[str, str], mode: Mode) -> tuple[str, ...]:
    corrupt = (CORRUPT_BATCH,) if mode is Mode.PERMISSIVE else ()
    if "columns" in said:
        return _read(said, "columns", _column_names, ())
    if _read(said, "keysOnly", _boolean, False):
        return KEY_COLUMNS + corrupt
    batch = BATCH_COLUMNS if _read(said, "includeMetadata", _boolean, False) else ()
    return RECORD_COLUMNS + batch + corrupt


def _column_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        raise ValueError(f"no column {unknown[0]!r}; there are {', '.join(TYPES)}")
    if len(set(names)) < len(names):
        raise ValueError("a column is named twice")
    return names


def _starting(said: Mapping[str, str]) -> Bound | None:
    falls_back = _read(said, "startingOffsetsByTimestampStrategy", _falls_back, False)
    return _by_time(said, "starting", falls_back=falls_back) or _read(said, "startingOffsets", _offsets, None)


def _ending(said: Mapping[str, str]) -> Bound:
    if bound := _by_time(said, "ending", falls_back=True):
        return bound
    bound = _read(said, "endingOffsets", _offsets, LOG_END)
    is_earliest = bound.of_all == SpecialTimestamp.EARLIEST and bound.partitions is None
    if is_earliest or SpecialTimestamp.EARLIEST in (bound.partitions or {}).values():
        raise InvalidConfig("endingOffsets", said["endingOffsets"], "a read cannot end at the earliest offset", _WHERE)
    return bound


def _by_time(said: Mapping[str, str], which: str, *, falls_back: bool) -> Bound | None:
    """Return a bound that is a time: one for all partitions wins, then times by partition, then offsets.

    Source: Spark KafkaSourceProvider.getKafkaOffsetRangeLimit.
    """
    of_all_ms = _read(said, f"{which}Timestamp", _epoch_ms, None)
    if of_all_ms is not None:
        return Bound(None, of_all_ms, by_timestamp=True, falls_back=falls_back)
    by_partition = _read(said, f"{which}OffsetsByTimestamp", _partition_map, None)
    return None if by_partition is None else Bound(by_partition, by_timestamp=True, falls_back=falls_back)


def _offsets(text: str) -> Bound:
    """Parse ``earliest``, ``latest``, or JSON by partition, in which -2 and -1 mean these two."""
    match text.strip().lower():
        case "earliest":
            return Bound(None, SpecialTimestamp.EARLIEST)
        case "latest":
            return LOG_END
    partitions = _partition_map(text)
    if any(offset < SpecialTimestamp.EARLIEST for offset in partitions.values()):
        raise ValueError("an offset below -2")
    return Bound(partitions)


def _partition_map(text: str) -> dict[TopicPartition, int]:
    """Parse JSON such as ``{"orders": {"0": 23, "1": -2}}``."""
    shape = ValueError('not JSON like {"orders": {"0": 23, "1": -2}}')
    try:
        read = json.loads(text)
        found = {
            TopicPartition(str(topic), int(partition)): offset
            for topic, offsets in read.items()
            for partition, offset in offsets.items()
        }
    except (ValueError, AttributeError) as error:
        raise shape from error
    if any(type(offset) is not int for offset in found.values()):
        raise shape
    return found
