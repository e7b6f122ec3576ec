"""Our side of a life: ``storage.log.Log``, asked and answering in the words of ``LogLife.java``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.log import AppendOrigin, Log, LogConfig
from storage.log.config import TimestampType
from storage.log.leader_epochs import read_leader_epochs
from storage.log.roll import create_segment
from storage.names import LEADER_EPOCH_CHECKPOINT
from tests.interop.lives.life import Life
from tests.interop.lives.steps import Answer, Step

_FS: Final = FileSystem()
_WRITES: Final = ("append", "follow", "roll")
_FIELDS: Final = {
    "internal.segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "max.message.bytes": "max_message_bytes",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "flush.messages": "flush_messages",
}


class OurSide:
    """One life as our log lives it."""

    def __init__(self, life: Life, directory: Path) -> None:
        self._life, self.directory = life, directory
        self._log: Any = None
        self.is_at_work = False
        """Whether files can be compared: a start of Kafka changes them at once, ours with the first append."""
        self._calls: dict[str, Callable[[Mapping[str, Any], int], Mapping[str, Any]]] = {
            "open": self._open,
            "append": self._append,
            "follow": self._follow,
            "roll": self._roll,
            "flush": self._flush,
            "lookup": self._lookup,
            "increment": self._increment,
            "close": self._close,
        }

    def do(self, step: Step, now_ms: int) -> Answer:
        """Do one step at one moment."""
        self.is_at_work = self.is_at_work or step.kind in _WRITES
        try:
            result = self._calls[step.kind](step.options, now_ms)
        except Exception as error:  # whatever it is: Kafka's answer judges it
            name = getattr(error, "kafka_name", type(error).__name__)
            return Answer(
                None, name, f"{type(error).__name__}: {error}", self._state(now_ms), is_refusal=_is_refusal(error)
            )
        return Answer(result, None, "", self._state(now_ms))

    def end(self) -> None:
        """Let go of the files."""
        if self._log is not None:
            with suppress(LogCleanerError):
                self._log.close()
        self._log = None

    def _open(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        is_new = not any(self.directory.iterdir())
        if is_new:
            create_segment(_FS, self.directory, 0)
            (self.directory / LEADER_EPOCH_CHECKPOINT).touch()
        self._log = Log.open(self.directory, _config(self._life), _FS, log_start_offset=options["start"])
        self.is_at_work = "segment.ms" in self._life.config and not is_new
        if self.is_at_work:  # a segment without timestamps counts from when it was opened: ours by the first append
            self._log.append(b"", now_ms=now_ms)
        return {}

    def _append(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        origin = AppendOrigin[options["origin"]]
        return _appended(self._log.append(options["data"], now_ms=now_ms, leader_epoch=options["epoch"], origin=origin))

    def _follow(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        return _appended(self._log.append_as_is(options["data"], now_ms=now_ms, leader_epoch=options["epoch"]))

    def _roll(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        return {"base_offset": self._log.roll(now_ms, options.get("at")).base_offset}

    def _flush(self, _options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        self._log.flush()
        return {}

    def _lookup(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        found = self._log.lookup_timestamp(options["time"])
        if found is None:
            return {"timestamp_ms": None, "offset": None, "leader_epoch": None}
        return dict(found._asdict())

    def _increment(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        return {"is_incremented": self._log.increment_log_start(options["to"])}

    def _close(self, _options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        self._log.close()
        self._log = None
        return {}

    def _state(self, now_ms: int) -> dict[str, Any]:
        """What the log says of itself."""
        log = self._log
        if log is None:
            return {}
        names = ("log_start_offset", "log_end_offset", "recovery_point")
        state = {name: getattr(log, name) for name in names}
        state["epochs"] = [[entry.epoch, entry.start_offset] for entry in read_leader_epochs(self.directory)]
        state["producers"] = sorted(
            (
                {
                    "producer_id": entry.producer_id,
                    "epoch": entry.epoch,
                    "coordinator_epoch": entry.coordinator_epoch,
                    "last_timestamp_ms": entry.last_timestamp_ms,
                    "open_txn_first_offset": entry.open_txn_first_offset,
                    "batches": [list(batch) for batch in entry.batches],
                }
                for entry in log.producer_state(now_ms).producers.values()
            ),
            key=lambda known: known["producer_id"],
        )
        return state


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, LogCleanerError | ValueError)


def _appended(appended: Any) -> dict[str, Any]:
    names = ("first_offset", "last_offset", "log_append_time_ms", "has_rolled", "is_duplicate")
    return {name: getattr(appended, name) for name in names}


def _config(life: Life) -> LogConfig:
    """Our configuration of Kafka's."""
    values: dict[str, Any] = {field: int(life.config[key]) for key, field in _FIELDS.items() if key in life.config}
    values["preallocate"] = life.config.get("preallocate") == "true"
    values["is_compacted"] = "compact" in life.config["cleanup.policy"]
    values["compression_type"] = life.config["compression.type"]
    values["producer_id_expiration_ms"] = life.expiration_ms
    if life.config["message.timestamp.type"] == "LogAppendTime":
        values["timestamp_type"] = TimestampType.LOG_APPEND_TIME
    return LogConfig(**values)
