"""What befalls the files of a log between a stop and a start: the same on both sides."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Final

from tests.interop.lives.steps import Step

_OF_INDEXES: Final = ("remove-index", "shorten-index", "garble-index", "lengthen-index")
_OF_SNAPSHOTS: Final = ("remove-snapshot", "garble-snapshot", "stray-snapshot")
_OF_TAILS: Final = ("cut-tail", "garbage-behind", "zeros-behind", "flip-in-last")
_ELSEWHERE: Final = ("flip-anywhere", "leftover-deleted", "leftover-cleaned", "remove-epochs")


def draw_damage(dice: Random, *, is_clean: bool, trusts_indexes: bool, recompresses: bool) -> list[Step]:
    """Draw what a log finds at its start: mostly nothing, else what a crash or a disk may do.

    Kafka trusts what index files say after a clean stop and below the recovery point: there they only get lost. Where
    the log compressed records itself only whole files go, since places within them differ.
    """
    if dice.random() < (0.6 if is_clean else 0.4):
        return []
    kinds: tuple[str, ...]
    if recompresses:
        kinds = ("remove-index", "remove-snapshot", "stray-snapshot", "leftover-deleted", "remove-epochs")
    elif is_clean:
        kinds = ("remove-index", *_OF_SNAPSHOTS, "leftover-deleted", "leftover-cleaned")
    else:
        of_indexes = ("remove-index",) if trusts_indexes else _OF_INDEXES
        kinds = (*_OF_TAILS, *_OF_TAILS, *of_indexes, *_OF_SNAPSHOTS, *_ELSEWHERE)
    return [
        Step("damage", {"of": dice.choice(kinds), "number": dice.randrange(1 << 30)})
        for _ in range(dice.choice((1, 1, 2)))
    ]


def do_damage(directory: Path, kind: str, number: int) -> None:
    """Do one damage; ``number`` chooses the file and the place in it."""
    dice = Random(number)
    logs = sorted(directory.glob("*.log"))
    indexes = sorted(path for suffix in ("index", "timeindex", "txnindex") for path in directory.glob(f"*.{suffix}"))
    snapshots = sorted(directory.glob("*.snapshot"))
    filled = [path for path in logs if path.stat().st_size]
    if kind in _OF_INDEXES and indexes:
        _damage_index(dice.choice(indexes), kind, dice)
    elif kind in _OF_SNAPSHOTS:
        _damage_snapshots(directory, snapshots, kind, dice)
    elif kind in (*_OF_TAILS, "flip-anywhere") and filled:
        _damage_log(dice.choice(filled) if kind == "flip-anywhere" else filled[-1], kind, dice)
    elif kind == "leftover-deleted" and logs:
        path = dice.choice([*logs, *indexes])
        shutil.copyfile(path, path.with_name(path.name + ".deleted"))
    elif kind == "leftover-cleaned" and logs:
        path = dice.choice(logs)
        shutil.copyfile(path, path.with_name(path.name + ".cleaned"))
    elif kind == "remove-epochs":
        (directory / "leader-epoch-checkpoint").unlink(missing_ok=True)


def _damage_index(path: Path, kind: str, dice: Random) -> None:
    content = path.read_bytes()
    if kind == "remove-index":
        path.unlink()
    elif kind == "shorten-index":
        path.write_bytes(content[: dice.randrange(len(content) + 1)])
    elif kind == "lengthen-index":
        path.write_bytes(content + dice.choice((bytes(24), dice.randbytes(24), b"\x07")))
    elif content:
        place = dice.randrange(min(len(content), 60))
        path.write_bytes(content[:place] + dice.randbytes(1) + content[place + 1 :])


def _damage_snapshots(directory: Path, snapshots: list[Path], kind: str, dice: Random) -> None:
    if not snapshots:
        return
    path = dice.choice(snapshots)
    content = path.read_bytes()
    if kind == "remove-snapshot":
        path.unlink()
    elif kind == "stray-snapshot":
        offset = dice.randrange(int(path.stem) + 60)
        (directory / f"{offset:020}.snapshot").write_bytes(content)
    else:
        place = dice.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def _damage_log(path: Path, kind: str, dice: Random) -> None:
    content = path.read_bytes()
    place = dice.randrange(len(content))
    if kind == "cut-tail":
        path.write_bytes(content[: -dice.randrange(1, min(len(content), 300) + 1)])
    elif kind == "garbage-behind":
        path.write_bytes(content + dice.randbytes(dice.randrange(1, 90)))
    elif kind == "zeros-behind":
        path.write_bytes(content + bytes(dice.choice((5, 100, 5_000))))
    elif kind == "flip-in-last":
        place = max(0, len(content) - 1 - dice.randrange(min(len(content), 400)))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :])
    else:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << dice.randrange(8)]) + content[place + 1 :])
