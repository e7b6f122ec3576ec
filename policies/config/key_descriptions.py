"""The descriptions of the configuration keys, for people: the effect of a key, its type, its range, its default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from policies.config.config_keys import DOUBLE_MAX, LONG_MAX, NO_LIMIT, ConfigKey, ValueKind, ValueUnit
from policies.config.config_values import show_value

FILE_SETTINGS: Final = {
    "server.properties": "the broker's own file; logcleaner reads it for values and for Kafka's defaults",
    "cluster.metadata": "whether logcleaner reads per-topic configurations from `__cluster_metadata-0`",
    "kafka.defaults": "states that the broker runs on Kafka's defaults: `retention.ms` is 7 days",
}
"""Key above all tables of the configuration file, which is no key of Kafka -> its effect."""
METRICS_SETTINGS: Final = {
    "listen": "where the daemon serves metrics; no port without it",
    "per.partition": "how many series each partition has: `few`, `all` or `none`",
    "textfile": "where `clean` and `free` write the same metrics",
}
"""Key of ``[metrics]`` -> its effect."""
REPORT_SETTINGS: Final = {
    "html": "where the daemon writes its last plan as a [page](report.md); no page without it",
}
"""Key of ``[report]`` -> its effect."""
SETTINGS: Final = {
    **FILE_SETTINGS,
    **{f"metrics.{key}": does for key, does in METRICS_SETTINGS.items()},
    **{f"report.{key}": does for key, does in REPORT_SETTINGS.items()},
}
"""Key of the configuration file that no layer states -> its effect."""
MEANINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "what happens to old records: `delete` by age and size, `compact` by key, or both",
    "retention.ms": "how old the newest record of a segment may be; -1 is no limit",
    "retention.bytes": "how large a partition may be; -1 is no limit",
    "segment.bytes": "how large the segments of a compacted log may be",
    "segment.ms": "when a broker begins a new segment; `explain` says when that will be",
    "segment.jitter.ms": "how much sooner, at random, a broker begins a new segment",
    "segment.index.bytes": "how large an index of a compacted segment may be",
    "max.message.bytes": "how large a batch that `clean --repack` merges may be",
    "index.interval.bytes": "how many bytes apart the entries of an index are",
    "file.delete.delay.ms": "how long deleted files wait as `.deleted`",
    "delete.retention.ms": "how long tombstones and markers stay after the first round that meets them",
    "min.cleanable.dirty.ratio": "compaction begins above this dirty ratio",
    "min.compaction.lag.ms": "records younger than this are not compacted",
    "max.compaction.lag.ms": "a log with dirty records older than this is compacted whatever its dirty ratio is",
    "max.decompressed.message.bytes": "`doctor` and `explain` name this limit if Kafka's cleaner may have given "
    "a partition up because of it; logcleaner also compacts larger records",
    "local.retention.ms": "`doctor` tells of uploaded segments that stay longer; nothing is deleted by it",
    "remote.storage.enable": "if true, logcleaner leaves the topic alone",
    "compaction.upgrade.format": "compaction rewrites v0 and v1 batches as v2, as Kafka does since 4.0",
    "retention.future.timestamps": "`mtime`: if a segment's newest record lies in the future, the file's time counts",
    "max.delete.ratio": "a plan that takes more than this share of a partition's bytes waits for `--yes`",
    "max.unkeyed.ratio": "a compaction that would drop more than this share of the records of its round, because they "
    "have no key, waits for `--yes`; 1 lets everything through",
    "log.dirs": "the log directories",
    "metadata.log.dir": "the directory of the metadata log, if it is not in one of `log.dirs`",
    "log.retention.check.interval.ms": "how often the daemon applies retention",
    "log.initial.task.delay.ms": "when the daemon applies retention for the first time",
    "log.flush.offset.checkpoint.interval.ms": "how often the daemon tries again to write a checkpoint after a failure",
    "log.cleaner.enable": "if false, compacted topics are left alone, as in Kafka",
    "log.cleaner.threads": "threads that compact",
    "log.cleaner.dedupe.buffer.size": "memory for the offset map of a round",
    "log.cleaner.io.buffer.load.factor": "how full the offset map may get",
    "log.cleaner.io.max.bytes.per.second": "how fast compaction reads and writes, at most",
    "log.cleaner.backoff.ms": "how often the daemon looks for partitions to compact",
    "producer.id.expiration.ms": "after how long without a record a producer is forgotten",
    "offsets.retention.minutes": "after so long `owners` calls the offsets of a group without members expired",
    "transactional.id.expiration.ms": "after so long `owners` calls an unused transactional id expired",
    "clock.jump.max": "how far the clock may be off before a guard rail stops the run",
    "lock.hold.max": "after so long the daemon begins no further partition, and lets go of the lock",
    "reload.guard": "saved limits that let much more go than those confirmed last wait for `config apply`; so does "
    "turning this off",
}
"""Key -> its effect. logcleaner reads and checks every other key, and does not act on it."""

_NOT_ACTED_ON: Final = "logcleaner reads and checks it, and does not act on it"
_KINDS: Final = {
    ValueKind.BOOL: "true or false",
    ValueKind.INT: "number",
    ValueKind.LONG: "number",
    ValueKind.DOUBLE: "number",
    ValueKind.STRING: "text",
    ValueKind.LIST: "list",
}
_UNITS: Final = {ValueUnit.MS: "time", ValueUnit.BYTES: "bytes"}


def meaning_of(key: ConfigKey) -> str:
    """Return the effect of a key in logcleaner; words of code stand in backticks."""
    return MEANINGS.get(key.name, _NOT_ACTED_ON)


def type_of(key: ConfigKey) -> str:
    """Return the type and range of a key: ``time, at least -1``, ``list of compact, delete``."""
    if key.choices:
        return ("list of " if key.kind is ValueKind.LIST else "") + ", ".join(key.choices)
    kind = _UNITS.get(key.unit) or _KINDS[key.kind]
    bounds = [f"at least {key.low:.15g}" if key.low is not None else "", f"at most {key.high:.15g}" if key.high else ""]
    said = " and ".join(filter(None, bounds))
    also = f", or {', '.join(map(str, key.besides))}" if key.besides else ""
    return f"{kind}{', ' + said if said else ''}{also}"


def default_of(key: ConfigKey) -> str:
    """Return the default of a key: ``7d``, ``no limit``; an empty text if it has none."""
    if key.default in (LONG_MAX, DOUBLE_MAX):
        return "no limit"
    if key.default in (None, ()):
        return "off" if key.ours else ""
    if isinstance(key.default, int) and key.default <= 0 and key.default != NO_LIMIT:
        return show_value(replace(key, unit=ValueUnit.NONE), key.default)
    return show_value(key, key.default)
