"""The only copy of records stays, whichever command unlinks: six kinds of only copies, and all commands that unlink.

Beside each only copy lies a leftover that may go, so that a test knows that the command came by.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.main import main
from cleaner.engine.journal import Journal
from cleaner.engine.only_copies import OnlyCopies
from storage.checkpoints import format_offset_checkpoint
from storage.log import Log
from storage.log.listing import list_partition
from storage.log_dir import LogDir
from storage.names import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    JOURNAL_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from storage.records import Record
from tests.cleaner.engine.doctor.made import DENSE, FS, HOUR_MS, NOW_MS, Healthy, seen
from tests.crash import acts as crash_acts
from tests.crash.scenes import Scene, writing

UNIQUE: Final = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
PARTITION: Final = "clicks-0"
SECOND_NS: Final = 1_000_000_000
LEFTOVER: Final = f"payments-0/{0:020d}.log.deleted"


@pytest.fixture
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Healthy:
    """Its clock stands longer behind every rename than any delay takes."""
    made = Healthy(tmp_path / "data")
    changed_ms = max(path.lstat().st_ctime_ns for path in made.log_dir.rglob("*")) // 1_000_000
    assert changed_ms + HOUR_MS < NOW_MS, "the samples of this test are of the past now"
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)
    (made.log_dir / LEFTOVER).write_bytes(b"of an earlier run")
    return made


def retire(healthy: Healthy, *places: int) -> list[Path]:
    """Give logs of the partition, and their index files, the names of deleted ones."""
    retired = []
    logs = sorted((healthy.log_dir / PARTITION).glob("*.log"))
    for log in [logs[place] for place in places]:
        for suffix in (".log", ".index", ".timeindex"):
            path = log.with_suffix(suffix)
            retired.append(path.rename(path.with_name(f"{path.name}.deleted")))
    return retired


def a_gap(healthy: Healthy) -> list[Path]:
    return retire(healthy, 1)


def the_beginning(healthy: Healthy) -> list[Path]:
    return retire(healthy, 0)


def the_end(healthy: Healthy) -> list[Path]:
    return retire(healthy, 2)


def every_log(healthy: Healthy) -> list[Path]:
    return retire(healthy, 0, 1, 2)


def an_end_that_only_a_snapshot_knows(healthy: Healthy) -> list[Path]:
    for name in (HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        (healthy.log_dir / name).unlink()
    return retire(healthy, 2)


def a_stray_beside_an_empty_directory(healthy: Healthy) -> list[Path]:
    """What a broker's start leaves of a partition without ``partition.metadata``, or of another id."""
    full, aside = healthy.log_dir / PARTITION, healthy.log_dir / f"{PARTITION.partition('-')[0]}-0.{UNIQUE}-stray"
    full.rename(aside)
    Log.create(full, DENSE, FS, topic_id=healthy.ids["clicks"]).close()
    return sorted(aside.iterdir())


KINDS: Final[dict[str, Callable[[Healthy], list[Path]]]] = {
    "a gap": a_gap,
    "the beginning": the_beginning,
    "the end": the_end,
    "every log": every_log,
    "an end that only a snapshot knows": an_end_that_only_a_snapshot_knows,
    "a stray beside an empty directory": a_stray_beside_an_empty_directory,
}
RETENTION: Final = ("--set", "file.delete.delay.ms=1")


def clean(healthy: Healthy, _: list[Path]) -> None:
    assert main(["clean", "--log-dir", str(healthy.log_dir), "--yes", *RETENTION]) == 0


def clean_at_once(healthy: Healthy, _: list[Path]) -> None:
    assert main(["clean", "--log-dir", str(healthy.log_dir), "--yes", "--delete-delay", "0"]) == 0


def run(healthy: Healthy, _: list[Path]) -> None:
    assert main(["run", "--once", "--log-dir", str(healthy.log_dir), *RETENTION]) == 0


def free(healthy: Healthy, _: list[Path]) -> None:
    assert main(["free", "--target", "100%", "--log-dir", str(healthy.log_dir), "--yes"]) in (0, 1, 5)


def sweep(healthy: Healthy, kept: list[Path]) -> None:
    named = {path.parent if path.parent.name.endswith("-stray") else path for path in kept}
    names = [str(path.relative_to(healthy.log_dir)) for path in sorted(named)]
    assert main(["doctor", "--log-dir", str(healthy.log_dir), "--yes", "--sweep", *names, LEFTOVER]) == 1


def recovery(healthy: Healthy, _: list[Path]) -> None:
    """Of a compaction that was interrupted in the same partition."""
    unfinished = healthy.log_dir / PARTITION / f"{0:020d}.log.cleaned"
    unfinished.write_bytes(b"")
    assert main(["clean", "--log-dir", str(healthy.log_dir), "--yes"]) == 0
    assert not unfinished.exists()


def repair(healthy: Healthy, _: list[Path]) -> None:
    main(["verify", "--repair", "--yes", "--log-dir", str(healthy.log_dir)])
    (healthy.log_dir / LEFTOVER).unlink()


UNLINKING: Final = {
    one.__name__.replace("_", " "): one for one in (clean, clean_at_once, run, free, sweep, recovery, repair)
}


@pytest.mark.parametrize("unlink", UNLINKING.values(), ids=UNLINKING)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_only_copy_stays(
    healthy: Healthy,
    capsys: pytest.CaptureFixture[str],
    kind: Callable[[Healthy], list[Path]],
    unlink: Callable[[Healthy, list[Path]], None],
) -> None:
    kept = kind(healthy)
    before = {path: path.read_bytes() for path in kept}
    told = seen(capsys, healthy.log_dir)
    unlink(healthy, kept)
    capsys.readouterr()
    assert {path: path.read_bytes() for path in kept} == before
    assert not (healthy.log_dir / LEFTOVER).exists(), "what may go went"
    is_stray = any(path.parent.name.endswith("-stray") for path in kept)
    assert main(["verify", "--log-dir", str(healthy.log_dir)]) == 4 or is_stray
    verified = capsys.readouterr().out
    assert is_stray or any(path.name in verified for path in kept)
    for status, findings in (told, seen(capsys, healthy.log_dir)):
        assert status == 4
        assert [one for one in findings if one["harm"] == "data_lost" and one["path"] in told_of(kept)]


def test_a_line_of_the_journal_does_not_speak_of_a_segment_that_was_put_back_and_set_aside_again(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir, told_ms = healthy.log_dir / PARTITION, time.time_ns() // 1_000_000 - HOUR_MS
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: told_ms)
    assert main(["clean", "--log-dir", str(healthy.log_dir), "--yes", "--set", "retention.ms=1"]) == 0
    for path in log_dir.glob("*.deleted"):
        path.rename(path.with_suffix(""))
    retired = retire(healthy, 1)
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: NOW_MS)
    clean(healthy, [])
    assert [path for path in retired if not path.exists()] == []


@pytest.mark.parametrize(("place", "stays"), [(1, False), (2, True)], ids=["in the gap", "of the segment above"])
def test_a_retired_log_tells_of_the_segment_below_only_within_its_gap(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], place: int, stays: bool
) -> None:
    """A cleaned log has the file time of its last source. One behind the gap is another compaction's."""
    logs = sorted((healthy.log_dir / PARTITION).glob("*.log"))
    retired = [path for path in retire(healthy, 1) if path.name.endswith(".log.deleted")]
    if place == 2:
        retired.append(logs[2].with_name(f"{logs[2].name}.deleted"))
        shutil.copyfile(logs[2], retired[1])
    for path in (retired[-1], logs[0]):
        os.utime(path, ns=(1, 1))
    clean(healthy, [])
    assert retired[0].exists() is stays
    capsys.readouterr()


@pytest.mark.parametrize("what", ["erase", "compact"])
def test_a_line_whose_run_stopped_before_does_not_speak_of_a_segment_that_was_set_aside(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """A segment that begins a group, as each one of an erasure does, is replaced by one of its own base offset."""
    log = healthy.file(PARTITION, ".log", 1)
    source = [int(log.stem), log.stat().st_size, log.stat().st_mtime_ns]
    with closing(Journal(healthy.log_dir, FS)) as journal:
        groups = {"groups": [[0], [source[0]]]} if what == "compact" else {}
        journal.record(what, NOW_MS - 2 * HOUR_MS, partition=PARTITION, sources=[source], **groups)
    retired = retire(healthy, 1)
    clean(healthy, [])
    assert [path for path in retired if not path.exists()] == []


def test_two_logs_that_were_written_within_a_millisecond_are_no_compaction(
    healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    """``chown -R`` gives every file a new change time, in any order, so the segment below may seem the later."""
    log = healthy.file(PARTITION, ".log")
    retired = retire(healthy, 1)
    for path, at_ns in ((log, 1_000_007), (retired[0], 1_000_900)):
        os.utime(path, ns=(at_ns, at_ns))
    clean(healthy, [])
    assert [path for path in retired if not path.exists()] == []


def superseded(log_dir: Path) -> None:
    """Two segments that are too large for one group, and have the same keys; and the active one."""
    with writing(log_dir, "payments-0") as log:
        for segment in range(2):
            for number in range(9):
                log.put(f"a{number}={segment}")
            log.roll()
        log.put("z=0")


@pytest.mark.parametrize("is_journalled", [True, False])
def test_what_a_round_emptied_is_no_loss_if_the_journal_tells_of_it_also_where_all_logs_have_one_time(
    tmp_path: Path, is_journalled: bool
) -> None:
    """So it is in a log dir that came out of an archive: the file times are whole seconds."""
    log_dir = Scene(crash_acts.clean, (superseded,)).draw(tmp_path / "data")
    for log in log_dir.glob("*/*.log"):
        os.utime(log, ns=(SECOND_NS, SECOND_NS))
    crash_acts.clean(log_dir, FS)
    name = TopicPartition("payments", 0)
    (first,) = log_dir.glob(f"{name}/{0:020d}.log")
    assert first.stat().st_size == 0
    if not is_journalled:
        (log_dir / JOURNAL_FILE).unlink()
    found = OnlyCopies(LogDir(log_dir)).of(name, list_partition(log_dir / str(name))).copies
    assert (0 in found) is not is_journalled


@pytest.mark.parametrize("is_chown", [False, True], ids=["as it is", "behind chown -R"])
def test_change_times_tell_of_a_compaction_until_all_files_get_new_ones(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], is_chown: bool
) -> None:
    """The segment below lost its last batch to a compaction; the log behind it may be one that a person set aside."""
    log = healthy.file(PARTITION, ".log")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    for suffix in (".index", ".timeindex"):
        log.with_suffix(suffix).write_bytes(b"")
    cleaned = healthy.log_dir / CLEANER_OFFSET_CHECKPOINT
    cleaned.write_bytes(format_offset_checkpoint({TopicPartition("clicks", 0): 4}))
    retired = retire(healthy, 1)
    paths = [*retired, log]
    if is_chown:
        paths.append(healthy.log_dir / PARTITION / PARTITION_METADATA_FILE)
    for path in paths:
        at_ns = time.time_ns()
        while path.stat().st_ctime_ns < at_ns:
            path.chmod(0o640)
    clean(healthy, [])
    assert retired[0].exists() is is_chown


def told_of(kept: list[Path]) -> set[str]:
    return {str(path) for path in kept} | {str(path.parent) for path in kept}


def test_dry_run_and_report_name_what_stays_and_the_journal_notes_it_once(
    healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    log = retire(healthy, 1)[0]
    names = ["--log-dir", str(healthy.log_dir)]
    expected = {
        "topic": "clicks", "partition": 0, "log_dir": str(healthy.log_dir), "name": log.name, "first_offset": 2,
        "last_offset": 3, "unknown_because": None,
    }  # fmt: skip
    for options in (["-n"], [], []):
        assert main(["clean", *names, "--json", *options]) == 0
        assert json.loads(capsys.readouterr().out)["kept"] == [expected]
    assert main(["clean", *names]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"Kept {PARTITION}/{log.name} may be the only copy of offsets 2 to 3, which the log lacks" in told
    assert "A broker that starts removes these files: do not start it" in told
    assert main(["clean", *names, "--output", str(healthy.log_dir.parent / "copy")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"Left out {PARTITION}/{log.name} may be the only copy" in told
    assert "The copy lacks these records: keep the original." in told
    assert evidence(healthy, capsys) == [
        {"name": log.name, "bytes": log.stat().st_size, "first": 2, "last": 3},
    ]


def evidence(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """What the journal has of files that tell of missing records."""
    assert main(["history", "--log-dir", str(healthy.log_dir), "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["log_dirs"][0]["entries"]
    return [file for entry in entries if entry["what"] == "evidence" for file in entry["kept"]]


@pytest.mark.parametrize("unlink", [clean, clean_at_once, run, free, repair], ids=lambda one: one.__name__)
def test_index_files_without_a_log_stay_and_are_named(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], unlink: Callable[[Healthy, list[Path]], None]
) -> None:
    log = healthy.file(PARTITION, ".log", 1)
    log.unlink()
    lone = [log.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    before = [path.read_bytes() for path in lone]
    (told,) = [one for one in seen(capsys, healthy.log_dir)[1] if one["code"] == "OFFSET_GAP"]
    assert told["remedy"].startswith("Do not start the broker: its start removes these index files, too.")
    unlink(healthy, [])
    capsys.readouterr()
    assert [path.read_bytes() for path in lone] == before
    assert [one for one in seen(capsys, healthy.log_dir)[1] if one["code"] == "OFFSET_GAP"] == [told]
    assert main(["clean", "--log-dir", str(healthy.log_dir), "-n"]) == 0
    report = " ".join(capsys.readouterr().out.split())
    for path in lone:
        assert f"Kept {PARTITION}/{path.name} has no .log: records are missing" in report
    if unlink is not repair:
        assert [one["name"] for one in evidence(healthy, capsys)] == [path.name for path in lone]
        assert evidence(healthy, capsys)[0].items() >= {"first": 3, "last": 3}.items()


def test_index_files_below_the_log_go(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    healthy.file(PARTITION, ".log").unlink()
    clean(healthy, [])
    assert not [*(healthy.log_dir / PARTITION).glob(f"{0:020d}.*index")]
    capsys.readouterr()


def test_a_dry_run_knows_the_age_of_an_only_copy_whose_index_files_were_not_set_aside(
    healthy: Healthy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recovery gives the time index the copy's suffix before a run plans."""
    log = healthy.file(PARTITION, ".log")
    log.rename(log.with_name(f"{log.name}.deleted"))
    words = ["clean", "--log-dir", str(healthy.log_dir), "--yes", "--json", "--set", "retention.ms=1"]
    documents = []
    for more in (["--dry-run"], []):
        main([*words, *more])
        documents.append(json.loads(capsys.readouterr().out)["partitions"])
    planned, done = ([[(s["base_offset"], s["action"]) for s in p["segments"]] for p in of] for of in documents)
    assert planned == done
    assert "delete" in {action for of in done for _, action in of}


@pytest.mark.parametrize("unlink", ["clean", "run", "free"])
@pytest.mark.parametrize("how", ["set aside", "removed"])
def test_what_tells_of_missing_records_never_comes_to_lie_below_the_log(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], unlink: str, how: str
) -> None:
    """There it would count as older than the log, and the next run would take it."""
    shutil.rmtree(healthy.log_dir / PARTITION)
    with Log.create(healthy.log_dir / PARTITION, DENSE, FS, topic_id=healthy.ids["clicks"]) as made:
        for age_ms in (1_000 * HOUR_MS, HOUR_MS, HOUR_MS):  # ``retention.ms`` is 240 hours
            made.append_records([Record(0, NOW_MS - age_ms, b"k", b"v")] * 2, now_ms=NOW_MS - age_ms, leader_epoch=0)
            made.roll(NOW_MS - age_ms)
    healthy.stopped()
    log = healthy.file(PARTITION, ".log", 1)
    kept = [log.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    if how == "removed":
        log.unlink()
    else:
        kept = retire(healthy, 1)
    before = {path: path.read_bytes() for path in kept}
    log_dir = ("--log-dir", str(healthy.log_dir))
    command = {"clean": ["clean", "--yes"], "run": ["run", "--once"], "free": ["free", "--target", "100%", "--yes"]}
    for _ in range(2):
        assert main([*command[unlink], *log_dir, "--set", "file.delete.delay.ms=1"]) <= 1
    assert {path: path.read_bytes() for path in kept} == before
    assert healthy.file(PARTITION, ".log").name == f"{0:020d}.log", "the segment below stays with them"
    capsys.readouterr()
    assert main(["clean", "-n", "--json", "--topic", "clicks", *log_dir]) == 0
    (told,) = json.loads(capsys.readouterr().out)["partitions"]
    assert [one["reason"]["code"] for one in told["segments"]] == [
        "RECORDS_MISSING",
        "TIME_NOT_REACHED",
        "ACTIVE_EMPTY",
    ]


def gaps_in(findings: list[Any]) -> list[Any]:
    return [(one["path"], one["harm"]) for one in findings if one["code"] == "OFFSET_GAP"]


@pytest.mark.parametrize("how", ["set aside", "removed", "emptied"])
def test_no_compaction_goes_beyond_missing_records(
    healthy: Healthy, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Such a compaction would put the records above them into the segment below, so that no missing record could be put
    back.
    """
    log = healthy.file("orders-0", ".log", 1)
    kept = [log.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    if how == "removed":
        log.unlink()
    elif how == "emptied":
        os.truncate(log, 0)
    else:
        kept = [path.rename(path.with_name(f"{path.name}.deleted")) for path in (log, *kept)]
    below = [] if how == "emptied" else [healthy.file("orders-0", ".log")]  # it is compacted alone
    before = {path: path.read_bytes() for path in (*kept, *below)}
    told = seen(capsys, healthy.log_dir)
    for _ in range(2):
        assert main(["clean", "--log-dir", str(healthy.log_dir), "--yes", "--force-compaction", *RETENTION]) == 0
    assert {path: path.read_bytes() for path in before} == before
    capsys.readouterr()
    assert gaps_in(seen(capsys, healthy.log_dir)[1]) == gaps_in(told[1]) != []
    assert main(["clean", "-n", "--json", "--log-dir", str(healthy.log_dir), "--topic", "orders"]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    others = {"NOTHING_DIRTY"} if how == "emptied" else set()
    assert {one["reason"]["code"] for one in partition["segments"]} == {"RECORDS_MISSING", *others}


def test_no_segment_takes_the_name_of_an_only_copy(healthy: Healthy, capsys: pytest.CaptureFixture[str]) -> None:
    """The log at that name was cut, so that the ``.deleted`` one has offsets that it lacks."""
    log = healthy.file(PARTITION, ".log")
    whole = log.read_bytes()
    waiting = log.with_name(f"{log.name}.deleted")
    shutil.copyfile(log, waiting)
    log.write_bytes(whole[: len(whole) // 2])
    os.utime(waiting, ns=(1, 1))
    names = ["--log-dir", str(healthy.log_dir)]
    assert main(["clean", *names, "--yes", "--set", "retention.ms=1"]) == 0
    assert "RECORDS_MISSING" in capsys.readouterr().out
    assert main(["delete-records", PARTITION, "--before-offset", "2", "--yes", *names]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "may be the only copy of offsets 1 to 1, and another file would take its name" in told
    assert waiting.read_bytes() == whole
