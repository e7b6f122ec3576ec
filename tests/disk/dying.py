"""A dying disk below a whole command: errors, a disk that is full or read-only from then on, short writes, slowness.

Each command has to end with a line and a status that ``docs/commands.md`` knows, and has to lose nothing; the next one,
on a disk that is well, has to finish. An fsync that failed once and then says yes has lost what it should have written:
a cut of power behind the end of the command shows that.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from tests.crash.promises import states_of
from tests.disk.acts import DATA
from tests.disk.process import Ended
from tests.disk.server import CHANGES, SHORT, SLEEP, SYNCS, Fault
from tests.disk.trials import Case, acted, copied, judged, last_cuts

NEEDING_SPACE: Final = ("write", "create", "mkdir", "rename", "truncate")
CHANGING: Final = tuple(call for call in CHANGES if call not in SYNCS)
LOOKING: Final = ("getattr", "readdir", "opendir", "open")
FAULTS: Final = {
    "read": Fault(("read",), "EIO", 0),
    "reads": Fault(("read",), "EIO", 0, -1),
    "look": Fault(LOOKING, "EIO", 0),
    "write": Fault(("write",), "EIO", 0),
    "fsync-once": Fault(SYNCS, "EIO", 0),
    "fsyncs": Fault(SYNCS, "EIO", 0, -1),
    "change": Fault(CHANGING, "EIO", 0),
    "full-once": Fault(NEEDING_SPACE, "ENOSPC", 0),
    "full": Fault(NEEDING_SPACE, "ENOSPC", 0, -1),
    "full-at-fsync": Fault(SYNCS, "ENOSPC", 0),
    "quota": Fault(NEEDING_SPACE, "EDQUOT", 0, -1),
    "read-only": Fault(CHANGING, "EROFS", 0, -1),
    "short-read": Fault(("read",), SHORT, 0),
    "short-reads": Fault(("read",), SHORT, 0, -1),
    "short-writes": Fault(("write",), SHORT, 0, -1),
    "slow": Fault(CHANGES, SLEEP, 0, 1, 2.0),
}
"""By name; each is tried at some call of its own."""
STATUSES: Final = frozenset({0, 1, 2, 3, 4, 5, 6, 10, 130, 143})
"""All that ``docs/commands.md`` knows."""


def moments(fault: str, operations: int, count: int, dice: Random) -> list[int]:
    """Calls at which a fault begins, the early ones more often. One of five calls is an fsync."""
    calls = operations // 5 if FAULTS[fault].calls == SYNCS else operations
    return sorted(int(calls * dice.random() ** 2) for _ in range(count))


def try_fault(case: Case, name: str, at: int, scratch: Path, dice: Random) -> list[str]:
    """Run the command on a disk that fails so at a call, and tell which promises that broke."""
    root = copied(case.root, scratch / "backing")
    ended, recording = acted(case, root, scratch, faults=[FAULTS[name]._replace(at=at)])
    broken = list(wrong_in(ended))
    has_waiting_lines = name.startswith(("full", "quota"))
    try:
        case.check_stopped(states_of(root / DATA), ended)
        if not has_waiting_lines:
            case.check_journal(root / DATA, ended)
        case.check_copy(root, ended)
        case.finishes(root / DATA, ended)
    except Exception as error:
        broken.append(f"{type(error).__name__}: {error}")
    shutil.rmtree(root)
    if name.startswith("fsync") and recording.operations:
        failures = judged(case, None, last_cuts(recording, 3, dice), scratch / "cuts")
        broken += [f"{failure.told} {failure.error}" for failure in failures]
    return [f"{case.name}, {name} at {at}: {told}" for told in broken]


def wrong_in(ended: Ended) -> Iterator[str]:
    """What a user should not see."""
    if ended.status not in STATUSES:
        yield f"it ended with {ended}"
    if "Traceback" in ended.stderr + ended.stdout:
        yield f"a traceback: {ended.stderr}"
    if ended.status and not (ended.stderr + ended.stdout).strip():
        yield f"it ended with {ended.status}, and no word"
