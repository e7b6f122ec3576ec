"""Broken twins of the program: the losses that once were mended, put back, and other rules left out.

Lives must catch each of them.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.config.files import CommandFiles
from cleaner.engine import cleaner, deletion, leftovers, restore
from cleaner.engine.compaction import fates
from cleaner.engine.compaction import round as rounds
from cleaner.engine.only_copies import NOTHING_KEPT, OnlyCopies
from policies import compaction, retain, retention
from policies.retain import BatchFacts, Marker, TransactionFates
from storage.errors import LogCleanerError
from storage.filesystem import Purpose
from storage.log import recovery
from storage.log_dir import LogDir
from tests.crash import test_twins
from tests.crash.power import RecordingFileSystem
from tests.lives.running import Breaks

_DAY_MS: Final = 86_400_000
_DELAY_MS: Final = 60_000


def _patch(owner: object, name: str, value: object) -> None:
    setattr(owner, name, value)


def _pipe_is_empty_the_second_time() -> None:
    read = CommandFiles.read

    def once(self: CommandFiles, path: Path, option: str) -> bytes:
        was_read = self.data_of(path) is not None and path.is_fifo()
        return b"" if was_read else read(self, path, option)

    _patch(CommandFiles, "read", once)
    _patch(cleaner, "check_second_reading", lambda *_: None)


def _what_is_set_aside_goes() -> None:
    _patch(OnlyCopies, "of", lambda *_: NOTHING_KEPT)


def _evidence_goes() -> None:
    plan_recovery = recovery.plan_recovery

    def plan(listing: Any) -> Any:
        planned = plan_recovery(listing)
        gone = tuple(file.path for file in planned.evidence)
        return planned._replace(unlinks=(*planned.unlinks, *gone), evidence=())

    _everywhere("plan_recovery", plan_recovery, plan)


def _evidence_is_emptied() -> None:
    plan_recovery = recovery.plan_recovery

    def plan(listing: Any) -> Any:
        planned = plan_recovery(listing)
        for file in planned.evidence:
            os.truncate(file.path, 0)
        return planned

    _everywhere("plan_recovery", plan_recovery, plan)


def _limits_pass_a_gap() -> None:
    _patch(retention, "missing_below", lambda *_: None)


def _rounds_cross_a_gap() -> None:
    cleanable = compaction.cleanable
    _everywhere("cleanable", cleanable, lambda log, *given: cleanable(replace(log, missing=()), *given))


def _rounds_wait_for_no_lag() -> None:
    cleanable = compaction.cleanable

    def at_once(log: Any, policy: Any, now_ms: int) -> Any:
        return cleanable(log, replace(policy, min_compaction_lag_ms=0), now_ms)

    _everywhere("cleanable", cleanable, at_once)


def _power_takes_bytes() -> None:
    _patch(RecordingFileSystem, "fsync_file", lambda *_: None)


def _checkpoints_do_not_last() -> None:
    fsync_dir = RecordingFileSystem.fsync_dir

    def fsync(self: RecordingFileSystem, path: Path, purpose: Purpose) -> None:
        if purpose is not Purpose.CHECKPOINT:
            fsync_dir(self, path, purpose)

    _patch(RecordingFileSystem, "fsync_dir", fsync)


def _errors_are_swallowed() -> None:
    for whole in (deletion.retire_segments, deletion.remove_segments):

        def quiet(*given: Any, _whole: Any = whole) -> None:
            with suppress(LogCleanerError, OSError):
                _whole(*given)

        _everywhere(whole.__name__, whole, quiet)


def _sources_go_first() -> None:
    test_twins.retires_before_it_exposes(pytest.MonkeyPatch())


def _holds_are_forgotten() -> None:
    _patch(LogDir, "holds", lambda _: {})


def _limits_take_one_more() -> None:
    decide = retention.retention

    def more(log: Any, policy: Any, now_ms: int) -> Any:
        decided = decide(log, policy, now_ms)
        return decide(log, policy, now_ms + _DAY_MS) if decided.deleted else decided

    _everywhere("retention", decide, more)


def _limits_keep_a_day_too_long() -> None:
    decide = retention.retention
    _everywhere("retention", decide, lambda log, policy, now_ms: decide(log, policy, now_ms - _DAY_MS))


def _commit_markers_go() -> None:
    can_discard = TransactionFates.can_discard

    def can(self: TransactionFates, batch: BatchFacts) -> bool:
        return can_discard(self, batch) or batch.marker is Marker.COMMIT

    _patch(TransactionFates, "can_discard", can)


def _ends_of_producers_go() -> None:
    _everywhere("ends_a_producer", retain.ends_a_producer, lambda *_: False)
    _everywhere("ends_of", fates.ends_of, lambda *_: {})


def _tombstones_go_early() -> None:
    horizons_of = rounds.horizons_of

    def early(round_: Any) -> Any:
        found = horizons_of(round_)
        return found._replace(now_ms=found.now_ms + 2 * _DAY_MS)

    _patch(rounds, "horizons_of", early)


def _horizons_are_near() -> None:
    horizons_of = rounds.horizons_of

    def near(round_: Any) -> Any:
        found = horizons_of(round_)
        return found._replace(new_ms=found.now_ms + 1)

    _patch(rounds, "horizons_of", near)


def _files_wait_half_as_long() -> None:
    due = leftovers.Leftovers.due
    _patch(leftovers.Leftovers, "due", lambda self, now_ms: due(self, now_ms + _DELAY_MS // 2))


def _failed_restores_hold_nothing() -> None:
    put_back = restore.put_back

    def back(fs: Any, log_dir: LogDir, planned: Any) -> None:
        try:
            put_back(fs, log_dir, planned)
        except (LogCleanerError, OSError):
            log_dir.write_holds({}, fs)
            raise

    _everywhere("put_back", put_back, back)


def _younger_go_first() -> None:
    check = deletion.check_unchanged
    _patch(deletion, "check_unchanged", lambda found, planned: check(found, planned)[::-1])


def _everywhere(name: str, old: object, new: object) -> None:
    """Replace a function in each module that imported it."""
    for module in [*sys.modules.values()]:
        if getattr(module, name, None) is old:
            _patch(module, name, new)


TWINS: Final[dict[str, Breaks]] = {
    "a pipe is empty the second time": _pipe_is_empty_the_second_time,
    "what a person set aside goes": _what_is_set_aside_goes,
    "evidence of missing records goes": _evidence_goes,
    "evidence is emptied": _evidence_is_emptied,
    "limits pass a gap": _limits_pass_a_gap,
    "rounds cross a gap": _rounds_cross_a_gap,
    "rounds wait for no lag": _rounds_wait_for_no_lag,
    "no fsync of a file": _power_takes_bytes,
    "checkpoints do not last": _checkpoints_do_not_last,
    "errors are swallowed": _errors_are_swallowed,
    "sources go before the swap": _sources_go_first,
    "holds are forgotten": _holds_are_forgotten,
    "files wait half as long": _files_wait_half_as_long,
    "failed restores hold nothing": _failed_restores_hold_nothing,
    "younger segments go first": _younger_go_first,
    "limits take a day more": _limits_take_one_more,
    "tombstones go early": _tombstones_go_early,
    "horizons are near": _horizons_are_near,
    "limits keep a day too long": _limits_keep_a_day_too_long,
    "commit markers go": _commit_markers_go,
    "ends of producers go": _ends_of_producers_go,
}
"""By what they do wrong; the first five are losses that were mended once."""
