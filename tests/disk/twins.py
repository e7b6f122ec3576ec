"""Broken twins of the program, each an fsync or an order away from it: the disk must catch every one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from storage.filesystem import FileSystem, NewFile, Purpose


@dataclass(frozen=True, slots=True)
class Twin:
    """What is broken, and the act that shows it."""

    breaks: Callable[[], None]
    """Breaks the program that runs."""
    act: str


def _leaves_an_fsync_out() -> None:
    setattr(NewFile, "fsync", lambda _: None)  # noqa: B010


def _of_the_crash_tests(name: str) -> Callable[[], None]:
    def breaks() -> None:
        import pytest

        from tests.crash import test_twins

        getattr(test_twins, name)(pytest.MonkeyPatch())

    return breaks


def _journals_behind_the_deed() -> None:
    from cleaner.engine import executor
    from cleaner.engine.journal import Journal

    waiting: list[tuple[Any, Any, Any]] = []
    record = Journal.record

    def later(self: Any, what: str, time_ms: int, **fields: Any) -> bool:
        waiting.append((self, (what, time_ms), fields))
        return True

    def and_now(retire: Callable[..., Any]) -> Callable[..., Any]:
        def doing(*given: Any) -> Any:
            try:
                return retire(*given)
            finally:
                while waiting:
                    journal, line, fields = waiting.pop(0)
                    record(journal, *line, **fields)

        return doing

    setattr(Journal, "record", later)  # noqa: B010
    for name in ("retire_segments", "remove_segments"):
        setattr(executor, name, and_now(getattr(executor, name)))


def _fsyncs_the_wrong_directory() -> None:
    fsync_dir = FileSystem.fsync_dir

    def of_parent(self: FileSystem, path: Path, purpose: Purpose) -> None:
        fsync_dir(self, path.parent, purpose)

    setattr(FileSystem, "fsync_dir", of_parent)  # noqa: B010


def _keeps_nothing_that_it_repairs() -> None:
    from cleaner.engine.repair import repairing

    setattr(repairing, "_keep_tail", lambda *_: None)  # noqa: B010
    setattr(repairing, "is_kept_already", lambda *_: True)  # noqa: B010


def _ends_before_its_names_last() -> None:
    fsync_dir = FileSystem.fsync_dir

    def not_of_an_import(self: FileSystem, path: Path, purpose: Purpose) -> None:
        if purpose not in {Purpose.IMPORT, Purpose.ROLL}:
            fsync_dir(self, path, purpose)

    setattr(FileSystem, "fsync_dir", not_of_an_import)  # noqa: B010


TWINS: Final = {
    "no-fsync": Twin(_leaves_an_fsync_out, "clean-at-once"),
    "early-rename": Twin(_of_the_crash_tests("retires_before_it_exposes"), "clean-at-once"),
    "early-checkpoint": Twin(_of_the_crash_tests("checkpoints_before_it_compacts"), "clean-at-once"),
    "late-journal": Twin(_journals_behind_the_deed, "clean"),
    "wrong-directory": Twin(_fsyncs_the_wrong_directory, "clean-at-once"),
    "keeps-nothing": Twin(_keeps_nothing_that_it_repairs, "repair-ends"),
    "ends-early": Twin(_ends_before_its_names_last, "import"),
}
