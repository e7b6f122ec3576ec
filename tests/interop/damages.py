"""Damages to log dirs, each made of a seed: to files of one partition, and to what concerns a whole log dir.

A damage gives words that say what it did. None where the partition has nothing that it could damage.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

Damage = Callable[[random.Random, Path], str | None]


def logs(directory: Path, *, filled: bool = True) -> list[Path]:
    """The ``.log`` files, ascending."""
    return [path for path in sorted(directory.glob("*.log")) if path.stat().st_size or not filled]


def _indexes(directory: Path, suffix: str) -> list[Path]:
    return [path for path in sorted(directory.glob(f"*{suffix}")) if path.stat().st_size]


def _flip(dice: random.Random, path: Path, low: int, high: int) -> str:
    data = bytearray(path.read_bytes())
    at = dice.randrange(low, high)
    data[at] ^= 1 << dice.randrange(8)
    path.write_bytes(data)
    return f"{path.name}: a bit of byte {at}"


def _batches(path: Path) -> list[tuple[int, int]]:
    """Position and size of each batch."""
    data, at, found = path.read_bytes(), 0, []
    while at + 17 < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if size < 26 or at + size > len(data):
            break
        found.append((at, size))
        at += size
    return found


# partitions: the log


def _flip_of(first: int, end: int | None, *, in_last_segment: bool = False) -> Damage:
    """A bit of a batch flips, at or behind byte ``first`` and before ``end``, or the end of the batch."""

    def damage(dice: random.Random, directory: Path) -> str | None:
        found = [path for path in logs(directory) if _batches(path)]
        if not found:
            return None
        path = found[-1] if in_last_segment else dice.choice(found)
        at, size = dice.choice(_batches(path))
        return _flip(dice, path, at + first, at + (end or size))

    return damage


flip_in_records = _flip_of(21, None)
flip_in_last_segment = _flip_of(21, None, in_last_segment=True)
flip_of_crc = _flip_of(17, 21)
flip_of_length = _flip_of(8, 12)
flip_of_offset = _flip_of(6, 8)
"""No CRC covers it, as it covers no leader epoch or magic byte."""
flip_of_epoch_or_magic = _flip_of(14, 17)


def torn_tail(dice: random.Random, directory: Path) -> str | None:
    """The last batch is cut."""
    found = logs(directory)
    if not found:
        return None
    path = found[-1]
    cut = dice.randrange(1, min(path.stat().st_size, 400))
    os.truncate(path, path.stat().st_size - cut)
    return f"{path.name}: {cut} bytes less"


def torn_middle(dice: random.Random, directory: Path) -> str | None:
    """A segment before the last one is cut."""
    found = logs(directory)
    if len(found) < 2:
        return None
    path = dice.choice(found[:-1])
    cut = dice.randrange(1, path.stat().st_size)
    os.truncate(path, path.stat().st_size - cut)
    return f"{path.name}: {cut} bytes less"


def zero_tail(dice: random.Random, directory: Path) -> str | None:
    """Zeros behind the last batch."""
    found = logs(directory, filled=False)
    if not found:
        return None
    count = dice.choice((1, 16, 17, 18, 30, 500, 70_000))
    os.truncate(found[-1], found[-1].stat().st_size + count)
    return f"{found[-1].name}: {count} zeros more"


def garbage_tail(dice: random.Random, directory: Path) -> str | None:
    """Garbage behind the last batch."""
    found = logs(directory, filled=False)
    if not found:
        return None
    garbage = dice.randbytes(dice.choice((5, 17, 18, 40, 3000)))
    with found[-1].open("ab") as file:
        file.write(garbage)
    return f"{found[-1].name}: {len(garbage)} bytes of garbage"


def empty_log(dice: random.Random, directory: Path) -> str | None:
    """A log of no bytes, where there were some."""
    found = logs(directory)
    if not found:
        return None
    path = dice.choice(found)
    os.truncate(path, 0)
    return path.name


def lost_log(dice: random.Random, directory: Path) -> str | None:
    """A log is gone; its indexes are left."""
    found = logs(directory, filled=False)
    if not found:
        return None
    path = dice.choice(found)
    path.unlink()
    return path.name


def lost_segment(dice: random.Random, directory: Path) -> str | None:
    """All files of a segment are gone."""
    found = logs(directory)
    if len(found) < 2:
        return None
    path = dice.choice(found)
    for one in directory.glob(f"{path.stem}.*"):
        one.unlink()
    return path.name


def lost_everything(dice: random.Random, directory: Path) -> str | None:
    """No file of the log is left."""
    for path in directory.glob("0*"):
        path.unlink()
    return directory.name


def lost_directory_content(dice: random.Random, directory: Path) -> str | None:
    """The directory is empty."""
    for path in directory.iterdir():
        path.unlink()
    return directory.name


# partitions: indexes


def damaged_index(suffix: str, how: str) -> Damage:
    def damage(dice: random.Random, directory: Path) -> str | None:
        found = sorted(directory.glob(f"*{suffix}"))
        if not found:
            return None
        path = dice.choice(found)
        size = path.stat().st_size
        entry = 8 if suffix == ".index" else 12
        if how == "missing":
            path.unlink()
        elif how == "short":
            if not size:
                return None
            os.truncate(path, dice.randrange(size))
        elif how == "garbage":
            path.write_bytes(dice.randbytes(max(size, entry * dice.randrange(1, 9))))
        elif how == "zeros":
            os.truncate(path, size + dice.choice((1, entry, 10 * entry, 100 * entry, 10 * 1024 * 1024)))
        elif how == "larger":
            with path.open("ab") as file:
                file.write(dice.randbytes(5_000))
        elif how == "flip":
            if not size:
                return None
            return _flip(dice, path, 0, size)
        return f"{path.name}: {how}"

    damage.__doc__ = f"An {suffix} is {how}."
    return damage


def txn_index_garbage(dice: random.Random, directory: Path) -> str | None:
    """A transaction index with garbage, or of another version, or cut."""
    found = sorted(directory.glob("*.txnindex"))
    if not found:
        return None
    path = dice.choice(found)
    size = path.stat().st_size
    how = dice.choice(("garbage", "version", "below", "cut", "missing"))
    if how == "garbage":
        path.write_bytes(dice.randbytes(68))
    elif how == "version":
        path.write_bytes(b"\0\1" + bytes(32))
    elif how == "below":
        path.write_bytes(bytes(18) + (-5).to_bytes(8, "big", signed=True) + bytes(8))
    elif how == "cut":
        os.truncate(path, max(size - 10, 0))
    else:
        path.unlink()
    return f"{path.name}: {how}"


def orphan_indexes(dice: random.Random, directory: Path) -> str | None:
    """Indexes at an offset where no log begins."""
    base = dice.randrange(1000, 2000)
    for suffix in dice.sample((".index", ".timeindex", ".txnindex"), 2):
        (directory / f"{base:020d}{suffix}").write_bytes(dice.randbytes(dice.choice((0, 24))))
    return str(base)


# partitions: leftovers


def deleted_leftovers(dice: random.Random, directory: Path) -> str | None:
    """Files that wait for their deletion."""
    for suffix in (".log", ".index", ".timeindex", ".snapshot"):
        (directory / f"{dice.randrange(40):020d}{suffix}.deleted").write_bytes(dice.randbytes(50))
    return directory.name


def cleaned_leftovers(dice: random.Random, directory: Path) -> str | None:
    """An unfinished compaction: ``.cleaned`` files of some kinds."""
    found = logs(directory)
    if not found:
        return None
    path = dice.choice(found)
    for suffix in dice.sample((".log", ".index", ".timeindex", ".txnindex"), 3):
        (directory / f"{path.stem}{suffix}.cleaned").write_bytes(path.read_bytes()[:100])
    return path.stem


def _swapped(*, whole: bool, with_cleaned: bool, sources: str) -> Damage:
    def damage(dice: random.Random, directory: Path) -> str | None:
        found = logs(directory)
        if len(found) < 3:
            return None
        first = dice.randrange(len(found) - 1)
        group = found[first : first + dice.choice((1, 2))]
        data = b"".join(path.read_bytes() for path in group)
        stem = group[0].stem
        (directory / f"{stem}.log.swap").write_bytes(data)
        if whole:
            (directory / f"{stem}.index.swap").write_bytes(b"")
            (directory / f"{stem}.timeindex.swap").write_bytes(b"")
        if with_cleaned:
            base = dice.choice(group).stem
            (directory / f"{base}.index.cleaned").write_bytes(b"")
        if sources == "deleted":
            for path in group:
                for one in directory.glob(f"{path.stem}.*"):
                    if not one.name.endswith((".swap", ".cleaned", ".snapshot")):
                        one.rename(f"{one}.deleted")
        elif sources == "half":
            group[0].rename(f"{group[0]}.deleted")
        return f"{stem}: {len(group)} segments"

    damage.__doc__ = f"An interrupted swap: all files {whole}, .cleaned {with_cleaned}, sources {sources}."
    return damage


def _damaged_swap(how: str) -> Damage:
    def damage(dice: random.Random, directory: Path) -> str | None:
        sources, whole = dice.choice(("there", "there", "deleted", "half")), dice.random() < 0.5
        if _swapped(whole=whole, with_cleaned=False, sources=sources)(dice, directory) is None:
            return None
        (path,) = directory.glob("*.log.swap")
        size = path.stat().st_size
        words = f"{path.name}: {how}, sources {sources}"
        if how == "torn":
            os.truncate(path, size - dice.randrange(1, size))
        elif how == "empty":
            os.truncate(path, 0)
        elif how == "longer":
            with path.open("ab") as file:
                file.write(dice.choice((bytes(30), b"torn", dice.randbytes(300))))
        elif how == "flipped":
            words = f"{words}, {_flip(dice, path, *dice.choice(((0, size), (8, 12), (21, 61))))}"
        else:  # by hand: a base offset where no segment begins
            target = directory / f"{int(path.name[:20]) + dice.randrange(1, 9):020d}.log.swap"
            path.rename(target)
            words = f"{words}, now {target.name}"
        return words

    damage.__doc__ = f"The log of an interrupted swap is {how}."
    return damage


def swap_without_a_log(dice: random.Random, directory: Path) -> str | None:
    """A ``.log.swap`` where nothing of the segment is left, and later ones are: garbage, or one batch."""
    found = logs(directory)
    if len(found) < 2:
        return None
    path = dice.choice(found)
    data = path.read_bytes()
    for one in directory.glob(f"{path.stem}.*"):
        one.unlink()
    (directory / f"{path.stem}.log.swap").write_bytes(
        dice.choice((data, data[:-5], b"", dice.randbytes(90), bytes(90)))
    )
    return path.stem


def index_swap_alone(dice: random.Random, directory: Path) -> str | None:
    """The log of a swap has its name already, its indexes not yet."""
    found = logs(directory)
    if not found:
        return None
    path = dice.choice(found)
    for suffix in (".index", ".timeindex"):
        one = directory / f"{path.stem}{suffix}"
        if one.exists():
            one.rename(f"{one}.swap")
    return path.stem


# partitions: snapshots, epochs, ids


def lost_snapshots(dice: random.Random, directory: Path) -> str | None:
    """No producer snapshot is left."""
    found = sorted(directory.glob("*.snapshot"))
    for path in found:
        path.unlink()
    return directory.name if found else None


def lost_snapshot(dice: random.Random, directory: Path) -> str | None:
    """One producer snapshot is gone."""
    found = sorted(directory.glob("*.snapshot"))
    if not found:
        return None
    path = dice.choice(found)
    path.unlink()
    return path.name


def broken_snapshots(dice: random.Random, directory: Path) -> str | None:
    """Producer snapshots with garbage, cut or longer."""
    found = sorted(directory.glob("*.snapshot"))
    if not found:
        return None
    for path in dice.sample(found, dice.randrange(1, len(found) + 1)):
        how = dice.randrange(4)
        data = path.read_bytes()
        path.write_bytes((dice.randbytes(80), data[: dice.randrange(len(data))], data + b"\0", b"")[how])
    return directory.name


def stray_snapshots(dice: random.Random, directory: Path) -> str | None:
    """Producer snapshots at which no segment begins."""
    found = sorted(directory.glob("*.snapshot"))
    if not found:
        return None
    for _ in range(dice.randrange(1, 4)):
        target = directory / f"{dice.randrange(1, 300):020d}.snapshot"
        target.write_bytes(dice.choice(found).read_bytes())
    return directory.name


def lost_epochs(dice: random.Random, directory: Path) -> str | None:
    """No ``leader-epoch-checkpoint``, or an empty one."""
    path = directory / "leader-epoch-checkpoint"
    path.unlink(missing_ok=True)
    if dice.random() < 0.5:
        path.touch()
    return directory.name


EPOCH_TEXTS: Final = (
    "garbage\n",
    "1\n0\n",
    "0\nx\n",
    "0\n-1\n",
    "0\n1\n",
    "0\n1\n0\n",
    "0\n1\nx 0\n",
    "0\n1\n0 x\n",
    "0\n1\n-1 0\n",
    "0\n1\n0 -1\n",
    "0\n1\n\n",
    "0\n1\n 0 0\n",
    "0\n2\n0 0\n",
    "\n",
    "\0\0\0\0",
    "\xff\xfe",
)
CHECKPOINT_TEXTS: Final = (
    "",
    "0\n",
    "0\n0\n",
    "garbage\n",
    "1\n0\n",
    "0\nx\n",
    "0\n-1\n",
    "0\n5\n",
    "0\n1\ntopic\n",
    "0\n1\ntopic x 0\n",
    "0\n1\ntopic 0 x\n",
    "0\n1\ntopic 0 -5\n",
    "\0\0\0\0",
    "\xff\xfe",
)


def broken_epochs(dice: random.Random, directory: Path) -> str | None:
    """A ``leader-epoch-checkpoint`` that does not parse."""
    text = dice.choice(EPOCH_TEXTS)
    (directory / "leader-epoch-checkpoint").write_bytes(text.encode("latin-1"))
    return repr(text)


def odd_epochs(dice: random.Random, directory: Path) -> str | None:
    """A ``leader-epoch-checkpoint`` that parses, with epochs that cannot be."""
    text = dice.choice(("0\n2\n5 100\n1 0\n", "0\n1\n0 99999\n", "0\n3\n0 0\n0 5\n0 9\n", "0\n1\n+3 +4\n"))
    (directory / "leader-epoch-checkpoint").write_text(text)
    return repr(text)


def lost_topic_id(dice: random.Random, directory: Path) -> str | None:
    """No ``partition.metadata``."""
    if not (directory / "partition.metadata").exists():
        return None
    (directory / "partition.metadata").unlink()
    return directory.name


def foreign_topic_id(dice: random.Random, directory: Path) -> str | None:
    """The ``partition.metadata`` of a topic that nobody knows."""
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ")
    return directory.name


TOPIC_ID_TEXTS: Final = (
    "",
    "version: 0\n",
    "version: 0\ntopic_id: short",
    "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    "version: -1\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ",
    "version: x\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ",
    "version 0\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ",
    "version: 0\ntopic_id:8FgL-MjIRcGBMw212kvxIQ",
    "version: 0\ntopic_id: ????????????????????-Q",
    "garbage",
    "\0\0\0\0\0\0",
    "\xff\xfe\n",
)


def broken_topic_id(dice: random.Random, directory: Path) -> str | None:
    """A ``partition.metadata`` that does not parse."""
    text = dice.choice(TOPIC_ID_TEXTS)
    (directory / "partition.metadata").write_bytes(text.encode("latin-1"))
    return repr(text)


def foreign_files(dice: random.Random, directory: Path) -> str | None:
    """Files and a directory that are no part of a log, under names that Kafka passes over."""
    (directory / "notes.txt").write_text("hello")
    (directory / "00000000000000000000.logcleaner").touch()
    (directory / "sub").mkdir()
    return directory.name


def impossible_names(dice: random.Random, directory: Path) -> str | None:
    """A file with the suffix of a segment, and no offset before it."""
    name = dice.choice(("foo.log", "foo.index", "foo.snapshot", "foo.cleaned", "foo.swap", "x.timeindex"))
    (directory / name).write_bytes(b"")
    return name


def odd_log_names(dice: random.Random, directory: Path) -> str | None:
    """A log whose name has not 20 digits: a copy of another one, or an empty file."""
    offset, found = dice.choice((0, 3, 5, 35, 60, 500)), logs(directory)
    name = dice.choice((f"{offset}.log", f"+{offset}.log", f"{offset:019d}.log", f"{offset:021d}.log"))
    (directory / name).write_bytes(dice.choice(found).read_bytes() if found and dice.random() < 0.5 else b"")
    return name


# partitions: directories


def renamed_to(suffix: str) -> Damage:
    """A partition directory that carries a suffix."""

    def damage(dice: random.Random, directory: Path) -> str | None:
        directory.rename(directory.with_name(f"{directory.name}.{dice.randbytes(16).hex()}{suffix}"))
        return directory.name

    damage.__doc__ = f"The directory is a {suffix} one."
    return damage


def copied_under_another_name(dice: random.Random, directory: Path) -> str | None:
    """The directory of a topic that the cluster metadata do not know."""
    target = directory.with_name(f"unknown{dice.randrange(10**6)}-0")
    shutil.copytree(directory, target)
    (target / "partition.metadata").write_text("version: 0\ntopic_id: 8FgL-MjIRcGBMw212kvxIQ")
    return target.name


def lost_directory(dice: random.Random, directory: Path) -> str | None:
    """The whole directory is gone."""
    shutil.rmtree(directory)
    return directory.name


PARTITION_DAMAGES: Final[dict[str, Damage]] = {
    "bit flipped in records": flip_in_records,
    "bit flipped in the last segment": flip_in_last_segment,
    "bit of a CRC flipped": flip_of_crc,
    "bit of a batch length flipped": flip_of_length,
    "bit of a base offset flipped": flip_of_offset,
    "bit of a leader epoch or magic flipped": flip_of_epoch_or_magic,
    "torn tail": torn_tail,
    "segment before the last cut": torn_middle,
    "zeros behind the log": zero_tail,
    "garbage behind the log": garbage_tail,
    "log emptied": empty_log,
    "log missing, indexes left": lost_log,
    "segment missing": lost_segment,
    "all segments missing": lost_everything,
    "partition directory empty": lost_directory_content,
    "partition directory missing": lost_directory,
    ".index missing": damaged_index(".index", "missing"),
    ".index cut": damaged_index(".index", "short"),
    ".index garbage": damaged_index(".index", "garbage"),
    ".index with zeros at its end": damaged_index(".index", "zeros"),
    ".index larger than the log": damaged_index(".index", "larger"),
    ".index with a bit flipped": damaged_index(".index", "flip"),
    ".timeindex missing": damaged_index(".timeindex", "missing"),
    ".timeindex cut": damaged_index(".timeindex", "short"),
    ".timeindex garbage": damaged_index(".timeindex", "garbage"),
    ".timeindex with zeros at its end": damaged_index(".timeindex", "zeros"),
    ".txnindex damaged": txn_index_garbage,
    "indexes without a log": orphan_indexes,
    ".deleted files": deleted_leftovers,
    ".cleaned files": cleaned_leftovers,
    "swap, complete": _swapped(whole=True, with_cleaned=False, sources="there"),
    "swap, indexes missing": _swapped(whole=False, with_cleaned=False, sources="there"),
    "swap with a .cleaned file": _swapped(whole=True, with_cleaned=True, sources="there"),
    "swap, sources .deleted": _swapped(whole=True, with_cleaned=False, sources="deleted"),
    "swap, sources partly .deleted": _swapped(whole=True, with_cleaned=False, sources="half"),
    "swap of indexes left": index_swap_alone,
    "swap torn": _damaged_swap("torn"),
    "swap with a bit flipped": _damaged_swap("flipped"),
    "swap emptied": _damaged_swap("empty"),
    "swap with bytes behind its end": _damaged_swap("longer"),
    "swap of a base offset that no segment has": _damaged_swap("moved"),
    "swap and nothing else of its segment": swap_without_a_log,
    "all snapshots missing": lost_snapshots,
    "a snapshot missing": lost_snapshot,
    "snapshots damaged": broken_snapshots,
    "snapshots of no segment": stray_snapshots,
    "leader-epoch-checkpoint missing or empty": lost_epochs,
    "leader-epoch-checkpoint garbage": broken_epochs,
    "leader-epoch-checkpoint odd": odd_epochs,
    "partition.metadata missing": lost_topic_id,
    "partition.metadata of another topic": foreign_topic_id,
    "partition.metadata garbage": broken_topic_id,
    "foreign files": foreign_files,
    "file name without an offset": impossible_names,
    "name of a log that has not 20 digits": odd_log_names,
    "-delete directory": renamed_to("-delete"),
    "-stray directory": renamed_to("-stray"),
    "-future directory": renamed_to("-future"),
    "topic that the metadata do not know": copied_under_another_name,
}
