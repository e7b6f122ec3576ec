"""Our side of a life: ``storage.log.Log``, asked and answering in the words of ``LogLife.java``."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from storage.errors import LogCleanerError
from storage.filesystem import FileSystem
from storage.log import Log, LogConfig
from tests.interop.lives.life import Life
from tests.interop.lives.steps import Answer, Step

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


class Unable(Exception):
    """Our log has no such call yet; the message names it."""


class OurSide:
    """One life as our log lives it."""

    def __init__(self, life: Life, directory: Path) -> None:
        self._life, self.directory = life, directory
        self._log: Any = None
        self._calls: dict[str, Callable[[Mapping[str, Any], int], Mapping[str, Any]]] = {
            "open": self._open,
            "append": self._append,
            "follow": self._follow,
            "roll": self._roll,
            "flush": self._flush,
            "fetch": self._fetch,
            "lookup": self._lookup,
            "truncate": self._truncate,
            "restart": self._restart,
            "increment": self._increment,
            "watermark": self._watermark,
            "epoch-end": self._epoch_end,
            "expire": self._expire,
            "close": self._close,
            "kill": self._kill,
        }

    def do(self, step: Step, now_ms: int) -> Answer:
        """Do one step at one moment. Raises: Unable."""
        try:
            result = self._calls[step.kind](step.options, now_ms)
        except Unable:
            raise
        except Exception as error:  # whatever it is: Kafka's answer judges it
            name = getattr(error, "exception", getattr(error, "kafka_name", type(error).__name__))
            return Answer(
                None, name, f"{type(error).__name__}: {error}", self._state(now_ms), is_refusal=_is_refusal(error)
            )
        return Answer(result, None, "", self._state(now_ms))

    def end(self) -> None:
        """Let go of the files."""
        if self._log is not None and hasattr(self._log, "kill"):
            self._log.kill()
        self._log = None

    def _open(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        if not hasattr(Log, "load"):
            raise Unable("load")
        self._log = Log.load(
            self.directory,
            _config(self._life),
            FileSystem(),
            now_ms=now_ms,
            had_clean_shutdown=options["clean"] == "true",
            log_start_offset=int(options["start"]),
            recovery_point=int(options["recovery"]),
        )
        return {}

    def _append(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        from storage.log.writing.origin import AppendOrigin

        origin = AppendOrigin[options["origin"]]
        return _appended(self._log.append(options["data"], now_ms=now_ms, leader_epoch=options["epoch"], origin=origin))

    def _follow(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        call = self._call("append_as_follower")
        return _appended(call(options["data"], now_ms=now_ms, leader_epoch=options["epoch"]))

    def _roll(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        return {"base_offset": self._log.roll(now_ms, options.get("at")).base_offset}

    def _flush(self, _options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        self._log.flush()
        return {}

    def _fetch(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        call = self._call("fetch")
        from storage.log.fetching.isolation import Isolation

        fetched = call(
            options["offset"],
            options["bytes"],
            Isolation[options["isolation"]],
            min_one_message=options["min-one"] == "true",
        )
        aborted = fetched.aborted
        return {
            "data": base64.b64encode(bytes(fetched.data)).decode(),
            "start_offset": fetched.start_offset,
            "aborted": None if aborted is None else [[one.producer_id, one.first_offset] for one in aborted],
            "is_first_incomplete": fetched.is_first_incomplete,
        }

    def _lookup(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        found = self._log.lookup_timestamp(options["time"])
        if found is None:
            return {"timestamp_ms": None, "offset": None, "leader_epoch": None}
        epoch = {"leader_epoch": found.leader_epoch} if hasattr(found, "leader_epoch") else {}
        return {"timestamp_ms": found.timestamp_ms, "offset": found.offset, **epoch}

    def _truncate(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        return {"is_truncated": self._call("truncate_to")(options["to"], now_ms=now_ms)}

    def _restart(self, options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        call = self._call("truncate_fully_and_start_at")
        call(options["at"], now_ms=now_ms, log_start_offset=options.get("start"))
        return {}

    def _increment(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        return {"is_incremented": self._call("increment_log_start")(options["to"])}

    def _watermark(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        return {"offset": self._call("update_high_watermark")(options["to"])}

    def _epoch_end(self, options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        found = self._call("end_offset_for_epoch")(options["epoch"])
        epoch, offset = (None, None) if found is None else found
        return {"epoch": epoch, "offset": offset}

    def _expire(self, _options: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        self._call("expire_producers")(now_ms)
        return {}

    def _close(self, _options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        self._log.close()
        self._log = None
        return {}

    def _kill(self, _options: Mapping[str, Any], _now_ms: int) -> Mapping[str, Any]:
        self._call("kill")()
        self._log = None
        return {}

    def _call(self, name: str) -> Callable[..., Any]:
        found = getattr(self._log, name, None)
        if found is None:
            raise Unable(name)
        return found  # type: ignore[no-any-return]

    def _state(self, now_ms: int) -> dict[str, Any]:
        """What the log says of itself; what it cannot say is left out."""
        log = self._log
        if log is None:
            return {}
        names = ("log_start_offset", "log_end_offset", "high_watermark", "last_stable_offset", "recovery_point")
        state = {name: getattr(log, name) for name in names if hasattr(log, name)}
        state["epochs"] = [[entry.epoch, entry.start_offset] for entry in log._epochs.entries()]
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
    return {name: getattr(appended, name) for name in names if hasattr(appended, name)}


def _config(life: Life) -> LogConfig:
    """Our configuration of Kafka's. Raises: Unable."""
    values: dict[str, Any] = {field: int(life.config[key]) for key, field in _FIELDS.items() if key in life.config}
    values["preallocate"] = life.config.get("preallocate") == "true"
    values["is_compacted"] = "compact" in life.config["cleanup.policy"]
    values["compression_type"] = life.config["compression.type"]
    values["producer_id_expiration_ms"] = life.expiration_ms
    known = {field.name for field in fields(LogConfig)}
    if lacking := values.keys() - known:
        raise Unable(f"LogConfig {sorted(lacking)}")
    if life.config["message.timestamp.type"] == "LogAppendTime":
        from storage.log.config import TimestampType

        values["timestamp_type"] = TimestampType.LOG_APPEND_TIME
    return LogConfig(**values)
