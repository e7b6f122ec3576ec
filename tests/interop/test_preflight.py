"""Every prediction of ``preflight`` equals what whole broker processes of Kafka 4 and 2.8.2 then do.

``LOGCLEANER_STARTS=12`` tries twelve times as much, ``LOGCLEANER_START_SEED=500`` other damages;
``LOGCLEANER_START_TABLE=FILE`` writes the table of that run.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from policies.preflight.facts import Release
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from storage.log.end import find_end
from storage.log.roll import segment_at
from tests.conftest import Samples
from tests.interop.dir_damages import DIR_DAMAGES, ODD_LEVELS, OF_KAFKA_2
from tests.interop.kafka_jars import judging_version, release
from tests.interop.made_dirs import interval_bytes, make
from tests.interop.owned_dirs import OWNED, dealt, room_of_nobody, trip
from tests.interop.predicted import logs_after, offline_differences, outcome_differences
from tests.interop.sample_dirs import deal
from tests.interop.start_trials import Bench, Tried
from tests.interop.starts import Kafka2, Kafka4, RealStart, old_kafka_beside, start
from tests.sampled import some

pytestmark = pytest.mark.kafka
TIMES: Final = int(os.environ.get("LOGCLEANER_STARTS", "1"))
TABLE: Final = os.environ.get("LOGCLEANER_START_TABLE")
TRIED: Final = Tried()
_PARTITIONS: Final = 32
_LOG_DIRS: Final = 10
_SEED: Final = 7
_FIRST: Final = int(os.environ.get("LOGCLEANER_START_SEED", "0"))
_SEEDS: Final = range(_FIRST, _FIRST + 4 * TIMES) if TIMES > 1 else some(range(_FIRST, _FIRST + 4), 1)
_SAMPLE_SEEDS: Final = range(_FIRST, _FIRST + TIMES)
_WHOLE_SEEDS: Final = range(_FIRST, _FIRST + max(TIMES // 4, 1))
_ALONE_MAX: Final = 4 if TIMES > 1 else 2
_IS_LONG: Final = TIMES > 1
_KINDS: Final = list(DIR_DAMAGES) if _IS_LONG else some(list(DIR_DAMAGES), 4, always=(ODD_LEVELS,))
_OLD_KINDS: Final = OF_KAFKA_2 if _IS_LONG else some(OF_KAFKA_2, 1)
_OLD_MAJOR: Final = 2
_WITHOUT_RETENTION: Final = {"log.initial.task.delay.ms": "3600000"}
"""The records of the samples are old."""
_WHOLE: Final = ("orders-", "payments-", "mixed-", "ledger-", "single-")
"""The partitions of the samples that the broker serves, and whose active segments have all their bytes."""
_TORN_BYTES: Final = 10
_NOTICED_SECONDS: Final = 3
"""A broker takes one log dir offline after the other."""


@pytest.fixture(scope="module")
def bench(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The Kafka that judges us, with topics in several log dirs."""
    scratch = tmp_path_factory.mktemp("starts")
    yield _made(Kafka4(kafka, scratch), scratch, *_judging())
    shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def old_bench(old_kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Kafka 2.8.2 beside a ZooKeeper."""
    scratch = tmp_path_factory.mktemp("old-starts")
    with old_kafka_beside(old_kafka, scratch) as broker:
        yield _made(broker, scratch, "2.8.2", Release(2, 8))
    shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def sampled(
    kafka: str, samples: Samples, old_samples: Samples, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """The Kafka that judges us, with the partitions of both sample archives, each in a log dir of its own."""
    scratch = tmp_path_factory.mktemp("samples")
    made = scratch / "made"
    deal(samples, old_samples, made, with_metadata=True)
    broker = Kafka4(kafka, scratch)
    yield Bench(*_judging(), broker, made, scratch, TRIED, settings=_WITHOUT_RETENTION, deletes_soon=False)
    shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def old_sampled(
    old_kafka: str, samples: Samples, old_samples: Samples, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """Kafka 2.8.2 with the same."""
    scratch = tmp_path_factory.mktemp("old-samples")
    made = scratch / "made"
    deal(samples, old_samples, made, with_metadata=False)
    with old_kafka_beside(old_kafka, scratch) as broker:
        yield Bench("2.8.2", Release(2, 8), broker, made, scratch, TRIED, deletes_soon=False)
    shutil.rmtree(scratch)


def _judging() -> tuple[str, Release]:
    version = judging_version()
    return version, Release(*release(version)[:2])


def _made(broker: Kafka4 | Kafka2, scratch: Path, name: str, release: Release) -> Bench:
    made = scratch / "made"
    made.mkdir()
    log_dirs = [made / f"dir{place:02}" for place in range(_LOG_DIRS)]
    if isinstance(broker, Kafka4):
        broker.format(log_dirs)
    make(broker, log_dirs, _PARTITIONS, _SEED)
    is_new = release.major > _OLD_MAJOR
    return Bench(name, release, broker, made, scratch, TRIED, interval_bytes, deletes_soon=is_new)


@pytest.mark.parametrize("seed", _SEEDS)
def test_damaged_log_dirs_start_as_predicted(bench: Bench, seed: int) -> None:
    trials = list(bench.log_dirs(seed, alone_max=_ALONE_MAX))
    assert len(trials) > _LOG_DIRS // 2
    assert [trial for trial in trials if not trial.is_right] == []


@pytest.mark.parametrize("seed", _SEEDS)
def test_damaged_log_dirs_start_in_kafka_2_as_predicted(old_bench: Bench, seed: int) -> None:
    trials = list(old_bench.log_dirs(seed, alone_max=_ALONE_MAX))
    assert len(trials) > _LOG_DIRS // 2
    assert [trial for trial in trials if not trial.is_right] == []


@pytest.mark.parametrize("seed", _SAMPLE_SEEDS)
@pytest.mark.parametrize("bench", ["sampled", "old_sampled"])
def test_damaged_samples_start_as_predicted(request: pytest.FixtureRequest, bench: str, seed: int) -> None:
    trials = list(request.getfixturevalue(bench).log_dirs(seed, alone_max=_ALONE_MAX))
    assert len(trials) > _LOG_DIRS // 2
    assert [trial for trial in trials if not trial.is_right] == []


def test_torn_tails_behind_a_clean_stop_end_where_doctor_says_and_recovered_ones_keep_every_whole_batch(
    sampled: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[dict[str, tuple[int, int]]] = []
    for is_mended in (False, True):
        log_dirs = sampled.copied()
        logs = {log.parent.name: log for path in log_dirs for log in _active_logs(path)}
        for log in logs.values():
            os.truncate(log, log.stat().st_size - _TORN_BYTES)
        whole = {name: find_end(segment_at(log.parent, int(log.stem)), trust_index=False).next_offset
                 for name, log in logs.items()}  # fmt: skip
        named = [word for path in log_dirs for word in ("--log-dir", str(path))]
        if is_mended:
            assert main(["verify", *named, "--repair=log-end", "--yes"]) == ExitStatus.DAMAGED  # records are gone
        capsys.readouterr()
        main(["doctor", "--json", "--kafka-defaults", *named])
        findings = json.loads(capsys.readouterr().out)["findings"]
        below = [one for one in findings if one["code"] == "END_BELOW_WATERMARK"]
        told = {Path(one["path"]).name: one["offset"] for one in below if Path(one["path"]).name in logs}
        assert all((path / ".kafka_cleanshutdown").exists() for path in log_dirs)
        predicted = sampled.predict(log_dirs)
        real = start(sampled.kafka, log_dirs, sampled.settings)
        assert list(outcome_differences(predicted, real)) == []
        ends = [logs_after(path, real, [one.name for one in path.iterdir()]) for path in log_dirs]
        logged = {name: one[0].bounds[1] for of_dir in ends for name, one in of_dir.items() if one[0].bounds}
        foreseen = {log.name: log.log_end_offset for one in predicted.log_dirs for log in one.logs}
        assert {name: logged[name] for name in logs} == told
        assert {name: logged[name] for name in logs} == {name: foreseen[name] for name in logs}
        found.append({name: (logged[name], whole[name]) for name in logs})
    assert any(end < of_batches for end, of_batches in found[0].values())
    assert all(end == of_batches for end, of_batches in found[1].values())


def _active_logs(log_dir: Path) -> list[Path]:
    """The last logs of partitions that have all their bytes and more than the cut, in one log dir."""
    partitions = [path for path in log_dir.iterdir() if path.is_dir() and path.name.startswith(_WHOLE)]
    logs = [max(path.glob("*.log")) for path in partitions]
    return [log for log in logs if log.stat().st_size > _TORN_BYTES]


@pytest.mark.parametrize("seed", _WHOLE_SEEDS)
@pytest.mark.parametrize("kind", _KINDS)
def test_damage_of_the_broker_as_a_whole_acts_as_predicted(bench: Bench, kind: str, seed: int) -> None:
    trial = bench.whole(kind, seed)
    assert trial is None or trial.is_right, trial


@pytest.mark.parametrize("seed", _WHOLE_SEEDS)
@pytest.mark.parametrize("kind", _OLD_KINDS)
def test_damage_of_the_broker_as_a_whole_acts_in_kafka_2_as_predicted(old_bench: Bench, kind: str, seed: int) -> None:
    trial = old_bench.whole(kind, seed)
    assert trial is None or trial.is_right, trial


def test_sound_log_dirs_start_and_nothing_is_cut_or_set_aside(bench: Bench) -> None:
    found = bench.predict(sorted(bench.made.iterdir()))
    assert (found.refusals, found.offline) == ((), [])
    assert [step for log_dir in found.log_dirs for log in log_dir.logs for step in log.truncations] == []


def test_held_lock_is_predicted_to_refuse_a_start(bench: Bench) -> None:
    log_dirs = bench.copied()
    with LogDirLock.acquire(log_dirs[1], FileSystem()):
        predicted = bench.predict(log_dirs)
        real = start(bench.kafka, log_dirs)
    assert [refusal.path for refusal in predicted.refusals] == [f"{log_dirs[1]}/.lock"]
    assert list(outcome_differences(predicted, real)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a broker as another user")
@pytest.mark.parametrize("place", range(len(OWNED)))
def test_owner_and_mode_of_files_trip_a_broker_that_is_not_root_as_predicted(
    bench: Bench, kafka: str, place: int
) -> None:
    with room_of_nobody(kafka) as (as_nobody, root):
        log_dirs = dealt(sorted(bench.made.iterdir()), root)[: len(OWNED[place]) + 1]
        trip(log_dirs, OWNED[place])
        predicted = bench.predict(log_dirs)

        def found(real: RealStart) -> list[str]:
            of_dirs = [text for path in log_dirs for text in offline_differences(str(path), predicted, real)]
            return [*outcome_differences(predicted, real), *of_dirs]

        real = start(as_nobody, log_dirs, None, lambda real: not found(real), _NOTICED_SECONDS)
    assert predicted.is_started
    assert found(real) == []
    assert 0 < len(predicted.offline) < len(OWNED[place])


def test_table_of_what_was_tried() -> None:
    if not TRIED.starts:
        pytest.skip("no start was tried")
    print(TRIED.table())
    if TABLE:
        Path(TABLE).write_text(TRIED.table() + "\n")
    assert TRIED.wrong_log_dirs == 0
