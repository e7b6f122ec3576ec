"""Stories of moves between log dirs that a stop of the broker interrupted: which ``-future`` directory is renamed."""

from __future__ import annotations

import pytest

from policies.preflight.facts import (
    FileBefore,
    KafkaFailure,
    LogDirBefore,
    PartitionBefore,
    ReadTopicId,
    Release,
    Replicas,
)
from policies.preflight.identity import Identities
from policies.preflight.prediction import StartSurroundings, predict
from policies.preflight.start import PartitionFate, Start, StartStepKind
from tests.policies.preflight.test_loading import KAFKA_4, NODE, ORDERS, SOUND, TOPIC_ID, FakeContents

TXN_INDEX = ("00000000000000000010.txnindex",)
FUTURE = "orders-0.0123456789abcdef0123456789abcdef-future"
IDS = {"/a": "idOfA", "/b": "idOfB"}


def started(
    here: list[str],
    there: list[str],
    *,
    release: Release = KAFKA_4,
    lag: int = 0,
    aborted: tuple[str, ...] = (),
    **garbage: str,
) -> Start:
    """Start with directories of orders-0 in ``/a``, where the metadata have it, and in ``/b``.

    Of ``garbage``, each names a checkpoint that does not parse, and the log dir that it lies in.
    """
    key = TOPIC_ID, 0
    replicas = Replicas(NODE, {key: (2, NODE)}, {TOPIC_ID: "orders"}, {key: ("other", IDS["/a"])})
    befores = []
    for path, names in (("/a", here), ("/b", there)):
        partitions = []
        for name in names:
            ends = {SOUND[3]: 20 - lag} if name == FUTURE else {}
            files = tuple(FileBefore(file, 100) for file in (*SOUND, *(TXN_INDEX if name in aborted else ())))
            partitions.append(PartitionBefore(name, ORDERS, files, None, ReadTopicId(TOPIC_ID), FakeContents(ends)))
        before = LogDirBefore(path, True, {}, {}, {}, tuple(partitions), ())
        broken = KafkaFailure("IOException", "malformed line", is_io=True)
        befores.append(before._replace(**{what: broken for what, where in garbage.items() if where == path}))
    return predict(befores, StartSurroundings(release, Identities((), {}, (), IDS), "/a", None, replicas))


def fates(start: Start) -> list[PartitionFate]:
    return [log.fate for log_dir in start.log_dirs for log in log_dir.logs]


def test_future_directory_where_the_metadata_have_the_partition_replaces_the_current_one() -> None:
    start = started([FUTURE], ["orders-0"])
    future, current = (log for log_dir in start.log_dirs for log in log_dir.logs)
    assert (future.fate, future.name_after, future.steps[-1].kind) == ("served", "orders-0", StartStepKind.RENAME)
    assert (current.fate, current.steps[0].kind) == (PartitionFate.DELETED, StartStepKind.DELETE_LATER)
    assert not current.loses_records
    assert start.is_started


def test_current_directory_that_has_more_records_than_the_future_one_loses_them() -> None:
    _, current = (log for log_dir in started([FUTURE], ["orders-0"], lag=3).log_dirs for log in log_dir.logs)
    assert current.loses_records


def test_future_directory_without_a_current_one_takes_its_name() -> None:
    assert fates(started([FUTURE], [])) == [PartitionFate.SERVED]


@pytest.mark.parametrize(
    ("here", "there", "release"), [(["orders-0"], [FUTURE], KAFKA_4), ([FUTURE], ["orders-0"], Release(3, 6))]
)
def test_future_directory_elsewhere_or_before_kafka_3_7_goes_on_to_be_one(
    here: list[str], there: list[str], release: Release
) -> None:
    assert sorted(fates(started(here, there, release=release))) == [PartitionFate.FUTURE, PartitionFate.SERVED]


def test_future_directory_beside_its_own_partition_stops_the_broker() -> None:
    (refusal,) = started(["orders-0", FUTURE], []).refusals
    assert (refusal.path, refusal.failure.exception) == (f"/a/{FUTURE}", "KafkaStorageException")


@pytest.mark.parametrize("path", ["/a", "/b"])
def test_move_that_ends_in_a_log_dir_that_went_offline_stops_the_broker(path: str) -> None:
    (refusal, *_) = started([FUTURE], ["orders-0"], recovery_points=path).refusals
    assert (refusal.path, refusal.failure.exception) == (f"/a/{FUTURE}", "KafkaStorageException")
    assert f"{path} is offline" in refusal.failure.cause


def test_checkpoint_that_is_read_behind_the_moves_stops_no_broker() -> None:
    start = started([FUTURE], ["orders-0"], high_watermarks="/b")
    assert (start.is_started, start.offline) == (True, ["/b"])
    assert started([], ["orders-0"], recovery_points="/b").offline == ["/b"]


def test_partition_in_a_log_dir_that_went_offline_begins_empty_where_the_metadata_have_it() -> None:
    start = started([], ["orders-0"], recovery_points="/b")
    assert [[step.file for step in one.steps] for one in start.log_dirs] == [["orders-0"], []]
    start = started(["orders-0"], ["clicks-0"], recovery_points="/b")
    assert [[step.file for step in one.steps] for one in start.log_dirs] == [[], []]


def test_watermarks_of_a_log_dir_in_which_nothing_is_served_are_not_read() -> None:
    assert started(["orders-0"], [], high_watermarks="/b").offline == []
    assert started([], ["orders-0"], high_watermarks="/b").offline == ["/b"]
    assert started([], ["orders-0"], high_watermarks="/a").offline == ["/a"], "the partition may begin there"


def test_transactions_in_a_log_dir_that_went_offline_may_stop_the_broker() -> None:
    start = started([], ["orders-0"], aborted=("orders-0",), recovery_points="/b")
    assert (start.is_started, [one.path for one in start.uncertain]) == (True, ["/b/orders-0"])
    assert started([], ["orders-0"], aborted=("orders-0",)).uncertain == ()
