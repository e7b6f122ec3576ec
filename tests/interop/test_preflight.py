"""Every prediction of ``preflight`` equals what whole broker processes of Kafka 4.3.1 and 2.8.2 then do.

``LOGCLEANER_STARTS=12`` tries twelve times as much, ``LOGCLEANER_START_SEED=500`` other damages;
``LOGCLEANER_START_TABLE=FILE`` writes the table of that run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.starting.preflight import Node, predict_start
from policies.starting.facts import Release
from storage.filesystem import FileSystem
from storage.lock import LogDirLock
from tests.interop.dir_damages import DIR_DAMAGES
from tests.interop.made_dirs import make
from tests.interop.owned_dirs import OWNED, dealt, room_of_nobody, trip
from tests.interop.predicted import outcome_differences
from tests.interop.start_trials import Bench, Tried
from tests.interop.starts import NODE_ID, Kafka2, Kafka4, copied, start, zookeeper

pytestmark = pytest.mark.kafka
TIMES: Final = int(os.environ.get("LOGCLEANER_STARTS", "1"))
TABLE: Final = os.environ.get("LOGCLEANER_START_TABLE")
TRIED: Final = Tried()
_PARTITIONS: Final = 32
_SEED: Final = 7
_FIRST: Final = int(os.environ.get("LOGCLEANER_START_SEED", "0"))
_BATCHES: Final = range(_FIRST, _FIRST + TIMES)
_OLD_BATCHES: Final = range(_FIRST, _FIRST + TIMES)
_ALONE_MAX: Final = 4 if TIMES > 1 else 2
_KINDS: Final = list(DIR_DAMAGES) if TIMES > 1 else list(DIR_DAMAGES)[::6]
_NOTICED_SECONDS: Final = 8
"""A broker takes one log dir offline after the other."""


@pytest.fixture(scope="module")
def bench(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Kafka 4.3.1 with two log dirs; all topics that are damaged one by one lie in ``a``."""
    scratch = tmp_path_factory.mktemp("starts")
    broker = Kafka4(kafka, scratch)
    yield _made(broker, scratch, "4.3.1", Release(4, 3))
    shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def pair(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Kafka 4.3.1 with topics in two log dirs."""
    scratch = tmp_path_factory.mktemp("pairs")
    broker = Kafka4(kafka, scratch)
    made = scratch / "made"
    made.mkdir()
    log_dirs = [made / "a", made / "b"]
    broker.format(log_dirs)
    make(broker, log_dirs, 10, _SEED)
    yield Bench("4.3.1", Release(4, 3), broker, made, scratch, TRIED)
    shutil.rmtree(scratch)


@pytest.fixture(scope="module")
def old_bench(old_kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Kafka 2.8.2 beside a ZooKeeper."""
    scratch = tmp_path_factory.mktemp("old-starts")
    with zookeeper(old_kafka, scratch) as address:
        yield _made(Kafka2(old_kafka, scratch, address), scratch, "2.8.2", Release(2, 8))
    shutil.rmtree(scratch)


def _made(broker: Kafka4 | Kafka2, scratch: Path, name: str, release: Release) -> Bench:
    made = scratch / "made"
    made.mkdir()
    if isinstance(broker, Kafka4):
        broker.format([made / "a"])
    make(broker, [made / "a"], _PARTITIONS, _SEED)
    return Bench(name, release, broker, made, scratch, TRIED)


@pytest.mark.parametrize("seed", _BATCHES)
def test_damaged_partitions_start_as_predicted(bench: Bench, seed: int) -> None:
    trials = list(bench.partitions(seed, alone_max=_ALONE_MAX))
    assert len(trials) > _PARTITIONS // 2
    assert [trial for trial in trials if not trial.is_right] == []


@pytest.mark.parametrize("seed", _OLD_BATCHES)
def test_damaged_partitions_start_in_kafka_2_as_predicted(old_bench: Bench, seed: int) -> None:
    trials = list(old_bench.partitions(seed, alone_max=_ALONE_MAX))
    assert len(trials) > _PARTITIONS // 2
    assert [trial for trial in trials if not trial.is_right] == []


@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + max(TIMES // 4, 1)))
@pytest.mark.parametrize("kind", _KINDS)
def test_damaged_log_dir_starts_as_predicted(pair: Bench, kind: str, seed: int) -> None:
    trial = pair.whole(kind, seed)
    assert trial is None or trial.differences == ()


def test_sound_log_dirs_start_and_nothing_is_cut_or_set_aside(pair: Bench) -> None:
    log_dirs = [pair.made / "a", pair.made / "b"]
    found = predict_start(log_dirs, Node(pair.release))
    assert (found.refusals, found.offline) == ((), [])
    assert [step for log_dir in found.log_dirs for log in log_dir.logs for step in log.truncations] == []


def test_held_lock_is_predicted_to_refuse_a_start(pair: Bench) -> None:
    log_dirs = [copied(pair.made / name, pair.scratch / f"held-{name}") for name in ("a", "b")]
    with LogDirLock.acquire(log_dirs[1], FileSystem()):
        predicted = predict_start(log_dirs, Node(pair.release, NODE_ID, log_dirs[0]))
        real = start(pair.kafka, log_dirs)
    assert [refusal.path for refusal in predicted.refusals] == [f"{log_dirs[1]}/.lock"]
    assert list(outcome_differences(predicted, real)) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a broker as another user")
@pytest.mark.parametrize("place", range(len(OWNED)))
def test_owner_and_mode_of_files_trip_a_broker_that_is_not_root_as_predicted(
    pair: Bench, kafka: str, place: int
) -> None:
    with room_of_nobody(kafka) as (as_nobody, root):
        log_dirs = dealt([pair.made / "a", pair.made / "b"], root)
        trip(log_dirs, OWNED[place])
        predicted = predict_start(log_dirs, Node(pair.release, NODE_ID, log_dirs[0], cleans=False))
        real = start(as_nobody, log_dirs, delayed_seconds=_NOTICED_SECONDS)
    assert predicted.is_started
    assert list(outcome_differences(predicted, real)) == []
    assert 0 < len(predicted.offline) < len(OWNED[place])


def test_table_of_what_was_tried() -> None:
    if not TRIED.starts:
        pytest.skip("no start was tried")
    print(TRIED.table())
    if TABLE:
        Path(TABLE).write_text(TRIED.table() + "\n")
    assert not TRIED.wrong
