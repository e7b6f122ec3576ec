"""Broken twins of the program: the losses that once were mended, put back, and other rules left out.

Lives must catch each of them.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.config.files import CommandFiles
from cleaner.engine import cleaner
from cleaner.engine.compaction import round as rounds
from cleaner.engine.only_copies import NOTHING_KEPT, OnlyCopies
from policies import compaction, retention
from storage.log import recovery
from storage.log_dir import LogDir
from tests.crash import test_twins
from tests.crash.power import RecordingFileSystem
from tests.lives.running import Breaks

_DAY_MS: Final = 86_400_000


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


def _limits_pass_a_gap() -> None:
    _patch(retention, "missing_below", lambda *_: None)


def _rounds_cross_a_gap() -> None:
    cleanable = compaction.cleanable
    _everywhere("cleanable", cleanable, lambda log, *given: cleanable(replace(log, missing=()), *given))


def _power_takes_bytes() -> None:
    _patch(RecordingFileSystem, "fsync_file", lambda *_: None)


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


def _tombstones_go_early() -> None:
    horizons_of = rounds.horizons_of

    def early(round_: Any) -> Any:
        found = horizons_of(round_)
        return found._replace(now_ms=found.now_ms + 2 * _DAY_MS)

    _patch(rounds, "horizons_of", early)


def _everywhere(name: str, old: object, new: object) -> None:
    """Replace a function in each module that imported it."""
    for module in [*sys.modules.values()]:
        if getattr(module, name, None) is old:
            _patch(module, name, new)


TWINS: Final[dict[str, Breaks]] = {
    "a pipe is empty the second time": _pipe_is_empty_the_second_time,
    "what a person set aside goes": _what_is_set_aside_goes,
    "evidence of missing records goes": _evidence_goes,
    "limits pass a gap": _limits_pass_a_gap,
    "rounds cross a gap": _rounds_cross_a_gap,
    "no fsync of a file": _power_takes_bytes,
    "sources go before the swap": _sources_go_first,
    "holds are forgotten": _holds_are_forgotten,
    "limits take a day more": _limits_take_one_more,
    "tombstones go early": _tombstones_go_early,
}
"""By what they do wrong; the first five are losses that were mended once."""
