"""The log dir of very many segments, made small: every policy finds work or reasons in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.config.reader import load_layers
from cleaner.config.settings import parse_settings
from policies import Request
from policies.reasons import ReasonCode
from tests.benchmarks.planning import COMMANDS, CONFIG, TOPIC_NAME_LENGTH_MAX, main, make_log_dir
from tests.benchmarks.processes import Cost
from tests.partition_dirs import NOW_MS, a_cleaner


def test_a_third_expires_a_third_stays_a_third_is_compacted(tmp_path: Path) -> None:
    log_dir = tmp_path / "logs"
    make_log_dir(log_dir, segments=60, partitions=6, now_ms=NOW_MS)
    layers = load_layers(parse_settings(CONFIG, Path("config.toml"))).layers
    plan = a_cleaner(log_dir, layers).plan(Request(NOW_MS, confirmed=True))
    codes = {
        partition.facts.topic_partition.topic: {v.reason.code for v in partition.verdicts}
        for partition in plan.partitions
    }
    assert ReasonCode.RETENTION_TIME in codes["expires-0"]
    assert ReasonCode.TIME_NOT_REACHED in codes["stays-0"]
    assert ReasonCode.DIRTY in codes["compacts-0"]
    assert sum(len(partition.facts.segments) for partition in plan.partitions) == 60


WORDS = ("--segments", "12", "--partitions", "3", "--rounds", "1")


def test_every_command_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "--seconds-max", "0"]) == 1
    printed = capsys.readouterr().out
    assert "12 segments in 3 partitions" in printed
    assert all(f"\n{name} " in printed for name in COMMANDS)


@pytest.mark.parametrize(("seconds_max", "status"), [("3", 0), ("1", 1)])
def test_the_exit_status_tells_whether_it_was_fast_enough(
    seconds_max: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.benchmarks.planning.run", lambda _command: Cost(2.0, 1, 1))
    assert main([*WORDS, "--seconds-max", seconds_max]) == status


def test_some_topics_have_the_longest_name_that_kafka_allows(tmp_path: Path) -> None:
    make_log_dir(tmp_path, segments=480, partitions=240, now_ms=NOW_MS)
    topics = {found.name.rpartition("-")[0] for found in tmp_path.iterdir() if found.is_dir()}
    assert {len(topic) for topic in topics if len(topic) > 20} == {TOPIC_NAME_LENGTH_MAX}
