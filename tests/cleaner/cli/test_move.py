"""``move`` as a user meets it: what it moves, keeps, says and refuses."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from storage.errors import UnreadableFile
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.log_dir import OFFSET_CHECKPOINTS, LogDir
from storage.names import CLEAN_SHUTDOWN_FILE, META_PROPERTIES_FILE, TopicPartition
from storage.segment import Segment
from tests.small_disks import a_small_disk

ORDERS = TopicPartition("orders", 0)


class Place:
    """Two log dirs of one broker, the second one empty."""

    def __init__(self, old: Path, new: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.old, self.new, self.capsys = old, new, capsys

    def run(self, *words: str) -> int:
        return main(["move", *words, "--to-dir", str(self.new), "--log-dir", str(self.old)])

    def document(self, *words: str) -> dict[str, Any]:
        self.capsys.readouterr()
        self.run(*words, "--json")
        found: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return found

    def error_of(self, *words: str) -> str:
        (one,) = self.document(*words)["partitions"]
        return str(one["error"])


@pytest.fixture
def place(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    old, new = shutil.copytree(demo, tmp_path / "old"), tmp_path / "new"
    new.mkdir()
    shutil.copy(old / META_PROPERTIES_FILE, new)
    (new / CLEAN_SHUTDOWN_FILE).touch()
    return Place(old, new, capsys)


def files_of(directory: Path) -> dict[str, tuple[bytes, int, int]]:
    found = {path.name: (path.read_bytes(), path.stat()) for path in directory.iterdir()}
    return {name: (data, status.st_mtime_ns, status.st_mode) for name, (data, status) in found.items()}


def lines_of(log_dir: Path) -> dict[str, int | None]:
    return {name: LogDir(log_dir).offsets(name).get(ORDERS) for name in OFFSET_CHECKPOINTS}


def aside(log_dir: Path, name: str = "orders-0") -> Path:
    (found,) = log_dir.glob(f"{name}.*-stray")
    return found


def test_a_moved_partition_is_as_it_was_and_its_old_directory_waits(place: Place) -> None:
    odd = place.old / "orders-0" / "partition.metadata"
    odd.chmod(0o600)
    files, lines = files_of(place.old / "orders-0"), lines_of(place.old)
    assert any(lines.values())
    assert place.run("orders-0", "clicks-0") == 0
    told = place.capsys.readouterr().out
    assert "12,000 records read, every checksum is right" in told
    assert files_of(place.new / "orders-0") == files_of(aside(place.old)) == files
    assert lines_of(place.new) == lines
    assert set(lines_of(place.old).values()) == {None}
    assert not (place.old / "orders-0").exists()
    assert (place.new / "clicks-0").is_dir()


def test_a_dry_run_changes_nothing_and_tells_the_same(place: Place) -> None:
    before = sorted(place.old.rglob("*")), sorted(place.new.rglob("*"))
    would = place.document("orders-0", "-n")
    assert (sorted(place.old.rglob("*")), sorted(place.new.rglob("*"))) == before
    did = place.document("orders-0")
    (planned,), (moved,) = would["partitions"], did["partitions"]
    assert (planned["files"], planned["bytes"], planned["step"]) == (moved["files"], moved["bytes"], "copy")
    assert (planned["done"], planned["records"], moved["done"], moved["records"]) == (False, None, True, 12000)


def test_what_is_moved_already_is_nothing_to_do(place: Place) -> None:
    assert place.run("orders-0") == place.run("orders-0") == 0
    assert "nothing to do: it is there already" in place.capsys.readouterr().out


def test_a_partition_can_be_moved_back(place: Place) -> None:
    files = files_of(place.old / "orders-0")
    assert place.run("orders-0") == 0
    assert main(["move", "orders-0", "--to-dir", str(place.old), "--log-dir", str(place.new)]) == 0
    assert files_of(place.old / "orders-0") == files
    assert not (place.new / "orders-0").exists()


def test_a_move_back_of_what_did_not_change_copies_nothing(place: Place) -> None:
    files, lines = files_of(place.old / "orders-0"), lines_of(place.old)
    inode = min((place.old / "orders-0").glob("*.log")).stat().st_ino
    assert place.run("orders-0") == 0
    assert main(["move", "orders-0", "--to-dir", str(place.old), "--log-dir", str(place.new), "--json"]) == 0
    assert '"step": "return"' in place.capsys.readouterr().out
    assert min((place.old / "orders-0").glob("*.log")).stat().st_ino == inode
    assert files_of(place.old / "orders-0") == files_of(aside(place.new)) == files
    assert lines_of(place.old) == lines
    assert set(lines_of(place.new).values()) == {None}


def restore_moves(place: Place, *words: str) -> int:
    return main(["restore", "--moves", *words, "--log-dir", str(place.old), str(place.new)])


def test_restore_takes_a_move_back(place: Place) -> None:
    files = files_of(place.old / "orders-0")
    assert place.run("orders-0", "clicks-0") == 0
    assert restore_moves(place, "-n", "--all") == restore_moves(place) == 0
    assert not (place.old / "orders-0").exists()
    assert restore_moves(place, "orders-0") == 0
    assert files_of(place.old / "orders-0") == files
    assert not (place.new / "orders-0").exists()
    assert (place.new / "clicks-0").is_dir()
    assert restore_moves(place, "orders-0") == 1
    assert "no move in the journal can be taken back" in place.capsys.readouterr().err


def test_restore_takes_no_move_back_behind_which_a_broker_wrote(place: Place) -> None:
    assert place.run("orders-0") == 0
    log = max((place.new / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + log.read_bytes())
    assert restore_moves(place, "orders-0") == 1
    told = place.capsys.readouterr().err
    assert f"changed since the move; not moved: logcleaner move orders-0 --to-dir {place.old}" in told
    assert (place.new / "orders-0").is_dir()


def test_restore_brings_a_partition_back_whose_new_disk_is_gone(place: Place) -> None:
    files, lines = files_of(place.old / "orders-0"), lines_of(place.old)
    assert place.run("orders-0") == 0
    only_old = ["restore", "--moves", "orders-0", "--log-dir", str(place.old)]
    assert main([*only_old, "--yes"]) == 2
    assert f"name {place.new}, too: orders-0 was moved there" in place.capsys.readouterr().err
    shutil.rmtree(place.new)
    assert main(only_old) == 5
    assert not (place.old / "orders-0").exists()
    assert main([*only_old, "--yes"]) == 0
    assert files_of(place.old / "orders-0") == files
    assert lines_of(place.old) == lines


def test_a_hold_goes_with_its_partition(place: Place) -> None:
    LogDir(place.old).write_holds({ORDERS: 7}, FileSystem(), {ORDERS: "AAAAAAAAAAAAAAAAAAAAZQ"})
    assert place.run("orders-0") == 0
    assert LogDir(place.old).holds() == {}
    assert LogDir(place.new).holds() == {ORDERS: 7}
    assert LogDir(place.new).hold_ids({ORDERS: 7}) == {ORDERS: "AAAAAAAAAAAAAAAAAAAAZQ"}


def test_history_and_the_journals_tell_of_it(place: Place) -> None:
    assert place.run("orders-0") == 0
    assert main(["history", "--log-dir", str(place.old), str(place.new)]) == 0
    told = " ".join(place.capsys.readouterr().out.split())
    assert f"orders-0: to {place.new}; the old directory: {aside(place.old).name}" in told
    assert f"orders-0: out of {place.old}" in told


def make_future(place: Place) -> None:
    (place.new / f"orders-0.{'ab' * 16}-future").mkdir()


def make_both(place: Place) -> None:
    shutil.copytree(place.old / "orders-0", place.new / "orders-0")


def make_a_directory(place: Place) -> None:
    (place.old / "orders-0" / "notes").mkdir()


def make_another_broker(place: Place) -> None:
    path = place.new / META_PROPERTIES_FILE
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))


def tear(place: Place) -> None:
    log = max((place.old / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"a write that was cut short")


def damage(place: Place) -> None:
    log = min((place.old / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)


def put_something_in_the_way(place: Place) -> None:
    (place.new / "orders-0.move-delete").mkdir()
    (place.new / "orders-0.move-delete" / "notes").touch()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (make_future, "-future says that a broker is moving it"),
        (make_both, "and no move of logcleaner put it there; not moved: logcleaner diff compares the two"),
        (make_a_directory, "orders-0/notes is no plain file"),
        (make_another_broker, "node.id is 1 in"),
        (tear, "verify --repair=log-end cuts a write that a crash tore off"),
        (damage, "old/orders-0/00000000000000000000.log"),
        (put_something_in_the_way, "holds notes, which no move wrote"),
    ],
)
def test_what_is_refused_has_one_clear_line_and_changes_nothing(
    place: Place, given: Callable[[Place], None], told: str
) -> None:
    given(place)
    before = sorted(place.old.glob("*/*")), sorted(place.new.rglob("*"))
    assert told in place.error_of("orders-0")
    assert (sorted(place.old.glob("*/*")), [p for p in sorted(place.new.rglob("*")) if p.name != ".lock"]) == before
    assert place.run("orders-0", "clicks-0") == 1
    assert (place.new / "clicks-0").is_dir() is (given is not make_another_broker)  # one that fails stops no other


@pytest.mark.parametrize(
    ("wanted", "told"),
    [("order-0", "did you mean orders-0?"), ("__cluster_metadata-0", "never touched"), ("x", "TOPIC-PARTITION = 'x'")],
)
def test_what_cannot_be_meant_is_wrong_usage(place: Place, wanted: str, told: str) -> None:
    assert place.run(wanted) == 2
    assert told in place.capsys.readouterr().err


def test_a_log_dir_that_a_broker_holds_is_left_alone(place: Place) -> None:
    with LogDir(place.new).lock(FileSystem()):
        assert place.run("orders-0") == 3
    assert (place.old / "orders-0").is_dir()


def test_indexes_behind_the_recovery_point_stay_out_where_a_start_would_trust_them(place: Place) -> None:
    (place.old / CLEAN_SHUTDOWN_FILE).unlink()
    names = {path.name for path in (place.old / "orders-0").iterdir()}
    found = place.document("orders-0")["partitions"][0]["rebuilt"]
    newest = max(name for name in names if name.endswith(".index"))
    assert newest in found
    assert {path.name for path in (place.new / "orders-0").iterdir()} == names - set(found)
    place.capsys.readouterr()
    assert main(["preflight", "--log-dir", str(place.old), str(place.new), "--json"]) in (0, 4)
    start = json.loads(place.capsys.readouterr().out)
    assert newest in json.dumps(start)


@pytest.fixture
def half_moved(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Both log dirs have the partition, because the old directory could not be renamed."""
    rename = FileSystem.rename

    def failing(fs: FileSystem, source: Path, target: Path, purpose: Purpose) -> None:
        if purpose is Purpose.MOVE:
            raise OSError(5, "the disk says no", str(target))
        rename(fs, source, target, purpose)

    with monkeypatch.context() as patched:
        patched.setattr(FileSystem, "rename", failing)
        assert "it lies in both log dirs, so that no broker starts" in place.error_of("orders-0")
    assert (place.old / "orders-0").is_dir()
    assert (place.new / "orders-0").is_dir()
    return place


def test_what_a_start_made_of_a_killed_moves_directory_is_removed(place: Place) -> None:
    private = place.new / "orders-0.move-delete"
    (private / "orders-0").mkdir(parents=True)
    (private / "orders-0" / "00000000000000000000.log").write_bytes(b"half a copy")
    for name in ("00000000000000000000.log", "00000000000000000000.index", "leader-epoch-checkpoint"):
        (private / name).touch()
    assert place.run("orders-0") == 0
    assert not private.exists()


def test_a_half_move_is_told_by_preflight_and_finished_by_the_same_command(half_moved: Place) -> None:
    place = half_moved
    place.capsys.readouterr()
    assert main(["preflight", "--log-dir", str(place.old), str(place.new)]) == 4
    assert "the same partition is in" in " ".join(place.capsys.readouterr().out.split())
    (finished,) = place.document("orders-0")["partitions"]
    assert (finished["step"], finished["done"]) == ("set-aside", True)
    assert aside(place.old).name == finished["set_aside"]
    assert set(lines_of(place.old).values()) == {None}


def test_a_half_move_whose_log_changed_since_is_left_to_a_person(half_moved: Place) -> None:
    log = max((half_moved.old / "orders-0").glob("*.log"))
    os.utime(log, ns=(1, 1))
    assert f"{log.name} differs: a broker wrote to one of them" in half_moved.error_of("orders-0")
    assert (half_moved.old / "orders-0").is_dir()


def test_a_target_without_space_is_refused_before_the_first_step(place: Place, tmp_path: Path) -> None:
    with a_small_disk("tmpfs", tmp_path, 2 << 20) as small:
        shutil.copy(place.old / META_PROPERTIES_FILE, small)
        full = Place(place.old, small, place.capsys)
        assert full.run("orders-0") == 1
        assert "make room there, name another log dir, or move fewer partitions" in place.capsys.readouterr().err
        assert not (small / "orders-0").exists()
        assert not list(small.glob("*-delete"))


def test_a_target_that_fills_up_meanwhile_leaves_nothing_behind(place: Place, tmp_path: Path) -> None:
    with a_small_disk("tmpfs", tmp_path, 8 << 20) as small, pytest.MonkeyPatch.context() as patched:
        shutil.copy(place.old / META_PROPERTIES_FILE, small)
        (small / "ballast").write_bytes(bytes(5 << 20))
        real = LogDir.space
        patched.setattr(LogDir, "space", lambda one: real(one)._replace(free_bytes=1 << 40))
        full = Place(place.old, small, place.capsys)
        assert "name another log dir" in full.error_of("orders-0")
        assert {path.name for path in small.iterdir()} <= {META_PROPERTIES_FILE, "ballast", ".lock"}
    assert (place.old / "orders-0").is_dir()


def test_a_target_whose_disk_does_not_read_again_is_told_as_that_and_not_as_the_source(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(_name: object, segments: Sequence[Segment], *_: object) -> None:
        raise UnreadableFile(segments[0].log.path, "Input/output error")

    monkeypatch.setattr("cleaner.engine.moving.count_records", dies)
    told = place.error_of("orders-0")
    assert told.startswith(f"orders-0: {place.new}/orders-0.move-delete/orders-0/")
    assert "name a log dir on another one" in told
    assert str(place.old) not in told
    assert sorted(path.name for path in place.new.glob("orders-0*")) == []
    monkeypatch.undo()
    assert place.run("orders-0") == 0


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("side", ["old", "new"])
def test_a_source_that_dies_is_to_be_copied_first(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: int, side: str
) -> None:
    path = getattr(place, side) / "orders-0" / "any.log"

    def dies(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("cleaner.engine.moving.OutputDir.copy", dies)
    told = place.error_of("orders-0")
    assert told.startswith(f"{path}: ")
    assert ("copy the log dir to another one" in told) == (side == "old" and number != errno.EACCES)
    assert "one of the two disks" not in told
    monkeypatch.undo()
    assert place.run("orders-0") == 0


def test_a_copy_that_fails_blames_neither_disk_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(NewFile, "copy_sparse", dies)
    told = place.error_of("orders-0")
    assert f"copying it to {place.new}" in told
    assert "one of the two disks fails: name a log dir on another one" in told


def test_the_reassignment_names_the_log_dir_for_this_broker_alone(place: Place) -> None:
    assert place.run("orders-0", "--print-reassignment") == 0
    told = json.loads(place.capsys.readouterr().out)
    log_dirs = [str(place.new)]
    assert told == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": log_dirs}],
    }
    assert (place.old / "orders-0").is_dir()


def test_a_reassignment_without_cluster_metadata_is_refused(place: Place) -> None:
    shutil.rmtree(place.old / "__cluster_metadata-0")
    assert place.run("orders-0", "--print-reassignment") == 1
    assert "no cluster metadata that can be read here place it on this broker" in place.capsys.readouterr().err
