"""Damages that concern a whole log dir, or all of a broker: one a start.

Each takes two log dirs of one broker, the metadata log in the first, and may be a context that holds something.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from storage.metadata.metadata_encode import encode_feature_level
from tests.interop import damages
from tests.metadata_dirs import append_metadata

DirDamage = Callable[[random.Random, list[Path]], str | None]
CLEANER_GARBAGE: Final = "cleaner-offset-checkpoint garbage"
WITH_CLEANER: Final = frozenset({CLEANER_GARBAGE})
"""The kinds whose start has the log cleaner on."""
METADATA: Final = "__cluster_metadata-0"
ODD_LEVELS: Final = "metadata log: feature level that not every Kafka knows"
_LEVELS: Final = (
    ("metadata.version", 99), ("metadata.version", 34), ("metadata.version", 31), ("metadata.version", 6),
    ("share.version", 2), ("odd.version", 1),
)  # fmt: skip


def _partitions(log_dir: Path) -> list[Path]:
    return sorted(path for path in log_dir.iterdir() if path.is_dir() and not path.name.startswith("__"))


def _unclean(dice: random.Random, log_dir: Path) -> None:
    marker = log_dir / ".kafka_cleanshutdown"
    marker.unlink(missing_ok=True)


def no_marker(dice: random.Random, log_dirs: list[Path]) -> str:
    """No marker of a clean shutdown."""
    for log_dir in log_dirs:
        _unclean(dice, log_dir)
    return "both"


def _checkpoint(name: str, texts: tuple[str, ...]) -> DirDamage:
    def damage(dice: random.Random, log_dirs: list[Path]) -> str:
        log_dir = dice.choice(log_dirs)
        text = dice.choice(texts)
        if dice.random() < 0.5:
            _unclean(dice, log_dir)
        (log_dir / name).write_bytes(text.encode("latin-1"))
        return f"{log_dir.name}: {text!r}"

    damage.__doc__ = f"A {name} that does not parse, or is empty."
    return damage


def missing_checkpoints(dice: random.Random, log_dirs: list[Path]) -> str:
    """Checkpoints are gone."""
    log_dir = dice.choice(log_dirs)
    _unclean(dice, log_dir)
    for path in log_dir.glob("*-checkpoint"):
        path.unlink()
    return log_dir.name


def odd_recovery_points(dice: random.Random, log_dirs: list[Path]) -> str:
    """Recovery points that are negative, beyond the end, or stated twice."""
    log_dir = dice.choice(log_dirs)
    _unclean(dice, log_dir)
    lines = []
    for path in _partitions(log_dir):
        topic, _, partition = path.name.rpartition("-")
        lines += [
            f"{topic} {partition} {dice.choice((-5, 0, 10**6, (1 << 63) - 1, 40))}" for _ in range(dice.choice((1, 2)))
        ]
    (log_dir / "recovery-point-offset-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(f"{x}\n" for x in lines))
    return log_dir.name


def odd_log_starts(dice: random.Random, log_dirs: list[Path]) -> str:
    """Log starts within the log, at its end, beyond it, and negative."""
    log_dir = dice.choice(log_dirs)
    if dice.random() < 0.5:
        _unclean(dice, log_dir)
    lines = []
    for path in _partitions(log_dir):
        topic, _, partition = path.name.rpartition("-")
        lines.append(f"{topic} {partition} {dice.choice((-5, 0, 3, 37, 140, 141, 10**6))}")
    (log_dir / "log-start-offset-checkpoint").write_text(f"0\n{len(lines)}\n" + "".join(f"{x}\n" for x in lines))
    return log_dir.name


def _future(assigned: str) -> DirDamage:
    def damage(dice: random.Random, log_dirs: list[Path]) -> str:
        here, there = dice.sample(log_dirs, 2)
        current = dice.choice(_partitions(here))
        future = f"{current.name}.{dice.randbytes(16).hex()}-future"
        if assigned == "elsewhere":
            shutil.copytree(current, there / future)
        elif assigned == "where it is, beside its partition":
            shutil.copytree(current, here / future)
        else:
            shutil.copytree(current, there / current.name)
            current.rename(here / future)
        return f"{current.name} of {here.name}"

    damage.__doc__ = f"A -future directory, which the metadata assign {assigned}."
    return damage


def _properties(change: Callable[[dict[str, str], random.Random], object]) -> DirDamage:
    def damage(dice: random.Random, log_dirs: list[Path]) -> str:
        log_dir = dice.choice(log_dirs)
        path = log_dir / "meta.properties"
        found = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
        change(found, dice)
        path.write_text("#\n" + "".join(f"{key}={value}\n" for key, value in found.items()))
        return log_dir.name

    return damage


def missing_properties(dice: random.Random, log_dirs: list[Path]) -> str:
    """No ``meta.properties``."""
    chosen = dice.choice((log_dirs, log_dirs[:1], log_dirs[1:]))
    for log_dir in chosen:
        (log_dir / "meta.properties").unlink()
    return str(len(chosen))


def garbage_properties(dice: random.Random, log_dirs: list[Path]) -> str:
    """A ``meta.properties`` of garbage."""
    log_dir = dice.choice(log_dirs)
    (log_dir / "meta.properties").write_bytes(
        dice.choice((b"", b"garbage\n", b"version=x\n", b"\\u12", b"version=1\n"))
    )
    return log_dir.name


def same_directory_id(dice: random.Random, log_dirs: list[Path]) -> str:
    """Both log dirs have one ``directory.id``: one was copied."""
    shutil.copy(log_dirs[0] / "meta.properties", log_dirs[1] / "meta.properties")
    return "both"


def foreign_directory(dice: random.Random, log_dirs: list[Path]) -> str:
    """A directory whose name is no partition's."""
    name = dice.choice(
        ("lost+found", ".snapshots", "notes", "x-y", "-1", "topic-", "a-0-delete", "a-0-stray", "x-99999999999")
    )
    (dice.choice(log_dirs) / name).mkdir()
    return name


def odd_directory(dice: random.Random, log_dirs: list[Path]) -> str:
    """A directory whose name Kafka takes, though it would not write it."""
    name = dice.choice(("remote-log-index-cache", "x-+5", "x--5", "a b-0", "x-007"))
    (dice.choice(log_dirs) / name).mkdir()
    return name


def same_partition_twice(dice: random.Random, log_dirs: list[Path]) -> str:
    """One partition in both log dirs."""
    path = dice.choice(_partitions(log_dirs[0]))
    shutil.copytree(path, log_dirs[1] / path.name)
    return path.name


def metadata_in_the_second(dice: random.Random, log_dirs: list[Path]) -> str:
    """The metadata log lies in a log dir that is not the metadata log dir."""
    (shutil.copytree if dice.random() < 0.5 else shutil.move)(log_dirs[0] / METADATA, log_dirs[1] / METADATA)
    return METADATA


def missing_log_dir(dice: random.Random, log_dirs: list[Path]) -> str:
    """The second log dir is empty, or not there: a disk that is not mounted."""
    shutil.rmtree(log_dirs[1])
    if dice.random() < 0.5:
        log_dirs[1].mkdir()
        return "empty"
    return "missing"


def log_dir_is_a_file(dice: random.Random, log_dirs: list[Path]) -> str:
    """The second log dir is a file."""
    shutil.rmtree(log_dirs[1])
    log_dirs[1].touch()
    return log_dirs[1].name


def one_dir_goes_offline(dice: random.Random, log_dirs: list[Path]) -> str | None:
    """An error of the disk at one partition of one log dir."""
    log_dir = dice.choice(log_dirs)
    path = dice.choice(_partitions(log_dir))
    (path / "leader-epoch-checkpoint").write_text(dice.choice(("garbage\n", "7\n0\n", "0\n3\n0 0\n")))
    return f"{log_dir.name}/{path.name}"


def _metadata(damage: damages.Damage) -> DirDamage:
    def damaged(dice: random.Random, log_dirs: list[Path]) -> str | None:
        return damage(dice, log_dirs[0] / METADATA)

    damaged.__doc__ = f"The metadata log: {damage.__doc__}"
    return damaged


def quorum_state(dice: random.Random, log_dirs: list[Path]) -> str:
    """``quorum-state`` missing, or garbage."""
    path = log_dirs[0] / METADATA / "quorum-state"
    text = dice.choice(("", "garbage", "[]", "{}", '{"data_version":7}', '{"data_version":0}', "null", None, None))
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    return repr(text)


def metadata_missing(dice: random.Random, log_dirs: list[Path]) -> str:
    """No metadata log."""
    shutil.rmtree(log_dirs[0] / METADATA)
    return METADATA


def metadata_snapshots(dice: random.Random, log_dirs: list[Path]) -> str:
    """Snapshots that are unfinished or deleted."""
    directory = log_dirs[0] / METADATA
    (directory / "00000000000000000010-0000000001-123456.checkpoint.part").write_bytes(b"x")
    (directory / "00000000000000000012-0000000001.checkpoint.deleted").write_bytes(b"x")
    return METADATA


def metadata_start_is_lost(dice: random.Random, log_dirs: list[Path]) -> str:
    """The first segment of the metadata log is gone, without a snapshot."""
    directory = log_dirs[0] / METADATA
    for path in directory.glob("00000000000000000000.*"):
        path.rename(path.with_name(path.name.replace("00000000000000000000", "00000000000000000005")))
    return METADATA


def odd_feature_level(dice: random.Random, log_dirs: list[Path]) -> str:
    """A feature was raised by another Kafka."""
    name, level = dice.choice(_LEVELS)
    append_metadata(log_dirs[0], [encode_feature_level(name, level)])
    return f"{name} {level}"


DIR_DAMAGES: Final[dict[str, DirDamage]] = {
    "no marker of a clean shutdown": no_marker,
    "recovery-point-offset-checkpoint garbage": _checkpoint(
        "recovery-point-offset-checkpoint", damages.CHECKPOINT_TEXTS
    ),
    "log-start-offset-checkpoint garbage": _checkpoint("log-start-offset-checkpoint", damages.CHECKPOINT_TEXTS),
    "replication-offset-checkpoint garbage": _checkpoint("replication-offset-checkpoint", damages.CHECKPOINT_TEXTS),
    CLEANER_GARBAGE: _checkpoint("cleaner-offset-checkpoint", damages.CHECKPOINT_TEXTS),
    "checkpoints missing": missing_checkpoints,
    "recovery points odd": odd_recovery_points,
    "log starts odd": odd_log_starts,
    "meta.properties missing": missing_properties,
    "meta.properties garbage": garbage_properties,
    "meta.properties of another cluster": _properties(
        lambda said, dice: said.update({"cluster.id": "otherclusterotherclus"})
    ),
    "meta.properties of another node": _properties(lambda said, dice: said.update({"node.id": "7"})),
    "meta.properties of version 0": _properties(
        lambda said, dice: said.update({"version": "0", "broker.id": said.pop("node.id")})
    ),
    "meta.properties of version 2": _properties(lambda said, dice: said.update({"version": "2"})),
    "directory.id missing": _properties(lambda said, dice: said.pop("directory.id", None)),
    "directory.id reserved": _properties(lambda said, dice: said.update({"directory.id": "AAAAAAAAAAAAAAAAAAAAAQ"})),
    "directory.id garbage": _properties(lambda said, dice: said.update({"directory.id": "short"})),
    "directory.id twice": same_directory_id,
    "directory of no partition": foreign_directory,
    "directory of an odd name": odd_directory,
    "one partition in two log dirs": same_partition_twice,
    "-future directory that is assigned elsewhere": _future("elsewhere"),
    "-future directory of a move that is assigned": _future("where it is"),
    "-future directory beside its partition": _future("where it is, beside its partition"),
    "metadata log in the second log dir": metadata_in_the_second,
    "log dir missing or empty": missing_log_dir,
    "log dir is a file": log_dir_is_a_file,
    "a partition takes its log dir offline": one_dir_goes_offline,
    "metadata log: bit flipped": _metadata(damages.flip_in_records),
    "metadata log: bit of a length flipped": _metadata(damages.flip_of_length),
    "metadata log: torn tail": _metadata(damages.torn_tail),
    "metadata log: cut": _metadata(lambda dice, path: damages.torn_tail(dice, path) and damages.torn_tail(dice, path)),
    "metadata log: zeros at the end": _metadata(damages.zero_tail),
    "metadata log: garbage at the end": _metadata(damages.garbage_tail),
    "metadata log: indexes missing": _metadata(damages.damaged_index(".index", "missing")),
    "metadata log: index garbage": _metadata(damages.damaged_index(".index", "garbage")),
    "metadata log: snapshots of producers damaged": _metadata(damages.broken_snapshots),
    "metadata log: leader epochs missing": _metadata(damages.lost_epochs),
    "metadata log: leader epochs garbage": _metadata(damages.broken_epochs),
    "metadata log: topic id of another": _metadata(damages.foreign_topic_id),
    "metadata log: topic id missing": _metadata(damages.lost_topic_id),
    "metadata log: topic id garbage": _metadata(damages.broken_topic_id),
    "metadata log: all segments missing": _metadata(damages.lost_everything),
    "metadata log: first records missing": metadata_start_is_lost,
    "metadata log: unfinished snapshots": metadata_snapshots,
    "metadata log missing": metadata_missing,
    "quorum-state missing or garbage": quorum_state,
    ODD_LEVELS: odd_feature_level,
}

OF_ONE_LOG_DIR: Final = (
    "recovery-point-offset-checkpoint garbage",
    "log-start-offset-checkpoint garbage",
    "replication-offset-checkpoint garbage",
    "checkpoints missing",
    "recovery points odd",
    "log starts odd",
    "meta.properties garbage",
    "directory.id missing",
    "directory.id garbage",
    "directory of an odd name",
)
"""The kinds that concern one log dir: they may be handed a list of one."""

OF_KAFKA_2: Final = (
    "meta.properties of another cluster",
    "meta.properties missing",
    "meta.properties of version 2",
    "directory of no partition",
    "one partition in two log dirs",
    "log dir missing or empty",
    "log dir is a file",
    "a partition takes its log dir offline",
    CLEANER_GARBAGE,
)
"""The kinds that are tried with a broker beside a ZooKeeper, too."""
