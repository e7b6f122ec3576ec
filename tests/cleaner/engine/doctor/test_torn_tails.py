"""A torn tail behind a clean stop: ``doctor``, ``preflight`` and ``verify`` tell one end, and one remedy.

The logs are those of the sample archive that have all their bytes. ``tests/interop/test_preflight.py`` has real starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from policies.findings.findings import END_LOST
from policies.findings.of_files import RECOVER_TAIL
from storage.log.end import find_end
from storage.log.listing import list_partition
from storage.records import iter_headers
from tests.conftest import Samples
from tests.partition_dirs import PartitionDir, committed, keyed

WHOLE: Final = ("orders-0", "payments-0", "mixed-0", "ledger-0", "single-0")
"""Retention alone reads the others: their logs are holes."""
Damage = Callable[[Path], None]


def cut(log: Path) -> None:
    """The last write was cut short."""
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 10)


def lose_a_batch(log: Path) -> None:
    """The last batch is gone whole: the index may name it still."""
    with log.open("r+b") as file:
        last = list(iter_headers(file.fileno(), log))[-1].position
        file.truncate(last)


def grow(log: Path) -> None:
    """Something else was written behind the last batch: no record is gone."""
    with log.open("ab") as file:
        file.write(b"garbage behind the log")


def active_log(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    status = main(list(words))
    return status, json.loads(capsys.readouterr().out)


def by_partition(document: dict[str, Any], log_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """The findings of damage, by the partition that they are of; a checkpoint names its partition in the text."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in document["findings"]:
        name = Path(one["path"]).relative_to(log_dir).parts[0]
        name = one["text"].partition(" ")[0] if name.endswith("-checkpoint") else name
        if one["harm"] == "data_lost":
            found.setdefault(name, []).append(one)
    return found


@pytest.fixture
def damaged(samples: Samples, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, Path]:
    """The damaged partitions, by name, with their logs as they were before; all in ``tmp_path / "data"``."""
    stage, damage = request.param
    log_dir = samples.copy(stage, tmp_path / "data", WHOLE)
    (log_dir / ".kafka_cleanshutdown").touch()
    found = {}
    for name in WHOLE:
        if (log_dir / name).is_dir() and active_log(log_dir / name).stat().st_size:
            damage(active_log(log_dir / name))
            found[name] = log_dir / name
    return found


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param((stage, damage), id=f"{stage}, {damage.__name__}")
        for stage in ("before", "after", "after2")
        for damage in (cut, lose_a_batch, grow)
    ],
    indirect=True,
)
def test_doctor_preflight_and_verify_tell_one_end_and_one_remedy_that_keeps_every_whole_batch(
    damaged: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = tmp_path / "data"
    named = ("--json", "--log-dir", str(log_dir))
    ends = {name: find_end(list_partition(path).segments[-1], trust_index=False) for name, path in damaged.items()}
    bytes_before = {path: path.read_bytes() for directory in damaged.values() for path in directory.iterdir()}

    def predicted() -> dict[str, dict[str, Any]]:
        document = told(capsys, "preflight", "--kafka", "4.3", *named)[1]
        return {one["directory"]: one for one in document["log_dirs"][0]["partitions"] if one["directory"] in damaged}

    start = predicted()
    of_doctor = by_partition(told(capsys, "doctor", "--kafka-defaults", *named)[1], log_dir)
    of_verify = by_partition(told(capsys, "verify", str(log_dir), "--json")[1], log_dir)
    for name, end in ends.items():
        counted = start[name]["log_end_offset"]
        hidden = [step for step in start[name]["steps"] if step["kind"] == "append-behind"]
        findings = [*of_doctor.get(name, []), *of_verify.get(name, [])]
        assert {one["offset"] for one in findings if one["code"] == "END_BELOW_WATERMARK"} <= {counted}
        assert bool(hidden) == any(one["repair"] == "log-end" for one in of_doctor[name] if one["code"] == "TORN_TAIL")
        if hidden:
            assert {one["remedy"] for one in findings} == {RECOVER_TAIL}
            texts = [one["text"] for one in findings if one["code"] == "TORN_TAIL"]
            assert len(texts) == 2
            assert all(f"offset {counted} for" in text for text in texts)
            assert all((f"the offsets {counted} to {end.next_offset - 1}" in text) == (counted < end.next_offset)
                       for text in texts)  # fmt: skip
    main(["verify", str(log_dir), "--repair=log-end", "--yes"])
    capsys.readouterr()
    assert (log_dir / ".kafka_cleanshutdown").exists()
    for name, one in predicted().items():
        assert one["log_end_offset"] == ends[name].next_offset
        assert not [step for step in one["steps"] if step["kind"] == "append-behind"]
    left = by_partition(told(capsys, "doctor", "--kafka-defaults", *named)[1], log_dir)
    left_to_verify = by_partition(told(capsys, "verify", str(log_dir), "--json")[1], log_dir)
    for name in damaged:
        gaps = [one for one in left.get(name, ()) if one.pop("is_damage") and one["code"] == "OFFSET_GAP"]
        assert {one["remedy"] for one in left.get(name, ()) if one not in gaps} <= {END_LOST}
        assert all(one in left_to_verify[name] for one in gaps), "an index without batches tells what is gone"
    for name, end in ends.items():
        copies = {path.name: path.read_bytes() for path in damaged[name].glob("*.log.from-*.logcleaner")}
        log = active_log(damaged[name])
        kept_bytes = len(bytes_before[log]) - end.torn_bytes
        tail = {f"{log.name}.from-{kept_bytes}.logcleaner": bytes_before[log][kept_bytes:]} if end.torn_bytes else {}
        assert (log.read_bytes(), copies) == (bytes_before[log][:kept_bytes], tail)
    main(["restore", "--repairs", "--all", "--log-dir", str(log_dir)])
    capsys.readouterr()
    assert {path: path.read_bytes() for path in bytes_before} == bytes_before


@pytest.fixture
def small(tmp_path: Path) -> PartitionDir:
    """A partition of two batches, stopped cleanly."""
    one = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a", "b"), keyed(2, "c"))
    committed(tmp_path, one)
    (tmp_path / ".kafka_cleanshutdown").touch()
    return one


def test_batch_behind_the_damage_is_not_cut_off(small: PartitionDir, capsys: pytest.CaptureFixture[str]) -> None:
    log = small.log(0)
    before = log.read_bytes() + b"torn by a crash, and then a broker went on" + keyed(3, "d")
    log.write_bytes(before)
    status, document = told(capsys, "verify", str(small.path.parent), "--repair=log-end", "--yes", "--json")
    codes = {one["code"] for one in document["repairs"]}
    assert (status, codes, log.read_bytes()) == (ExitStatus.DAMAGED, {"LOG_DAMAGED"}, before)


def test_damaged_batch_in_front_of_the_tear_is_not_cut_off(
    small: PartitionDir, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small.log(0)
    data = bytearray(log.read_bytes() + b"torn by a crash")
    data[70] ^= 1
    log.write_bytes(data)
    _, document = told(capsys, "verify", str(small.path.parent), "--repair=log-end", "--yes", "--json")
    assert (document["repairs"], log.read_bytes()) == ([], bytes(data))
    assert all("--repair=log-end" not in one["remedy"] for one in document["findings"])


def test_start_behind_an_unclean_stop_finds_the_end_itself(
    small: PartitionDir, capsys: pytest.CaptureFixture[str]
) -> None:
    (small.path.parent / ".kafka_cleanshutdown").unlink()
    cut(small.log(0))
    _, document = told(capsys, "verify", str(small.path.parent), "--repair=log-end", "--yes", "--json")
    assert document["repairs"] == []
    assert [one["repair"] for one in document["findings"] if one["code"] == "TORN_TAIL"] == [None]


def test_history_names_the_cut(small: PartitionDir, capsys: pytest.CaptureFixture[str]) -> None:
    cut(small.log(0))
    main(["verify", str(small.path.parent), "--repair=log-end", "--yes"])
    capsys.readouterr()
    main(["history", "--log-dir", str(small.path.parent)])
    assert "cut behind its last whole batch, at byte" in " ".join(capsys.readouterr().out.split())
