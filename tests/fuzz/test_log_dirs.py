"""Whole log dirs, damaged: an error or the right result, in bounded memory; ``tests.fuzz.trial`` says what is right."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import Samples
from tests.fuzz.__main__ import run
from tests.fuzz.damage import Damage, Kind, drawn
from tests.fuzz.samples import LEGACY, a_subject
from tests.fuzz.seeds import make_log_dir
from tests.fuzz.trial import Subject, try_damages


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    scratch = tmp_path_factory.mktemp("undamaged")
    return Subject.of(make_log_dir(scratch / "log dir"), scratch)


@settings(max_examples=20, database=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_damage_to_any_file_gives_an_error_or_the_right_result(
    subject: Subject, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    numbers = st.integers(0, 63) | st.integers(0, 1 << 20)
    damage = st.builds(Damage, st.sampled_from(subject.files), st.sampled_from(list(Kind)), numbers, numbers)
    try_damages(subject, data.draw(st.lists(damage, min_size=1, max_size=3)), tmp_path_factory.mktemp("trial"))


def test_damage_is_survived_in_bounded_memory() -> None:
    ran = run("log-dir", 0, 15, 60)
    assert (ran.executions > 0, ran.findings) == (True, 0)


def try_some(subject: Subject, scratch: Path) -> set[str]:
    return {try_damages(subject, drawn(Random(seed), subject.files), scratch) for seed in range(4)}


def test_damaged_samples_of_kafka_4(samples: Samples, tmp_path: Path) -> None:
    assert try_some(a_subject(samples, tmp_path, "ledger-0"), tmp_path)


def test_damaged_samples_of_kafka_2(old_samples: Samples, tmp_path: Path) -> None:
    assert try_some(a_subject(old_samples, tmp_path, "log-v0-gzip-0", *LEGACY), tmp_path)


# Findings of the fuzzer, each once more


@pytest.mark.parametrize(
    "damage",
    [
        Damage("txn-0/{1}.txnindex", Kind.TRUNCATE, 0, 0),
        Damage("txn-0/{1}.txnindex", Kind.FLIP, 9, 0),
        Damage("txn-0/{3}.txnindex", Kind.TRUNCATE, 0, 0),
        Damage("txn-0/{3}.txnindex", Kind.FLIP, 9, 0),
        Damage("timed-0/{1}.timeindex", Kind.TRUNCATE, 12, 0),
        Damage("timed-0/{1}.timeindex", Kind.TRUNCATE, 0, 0),
        Damage("swapped-0/{0}.log.swap", Kind.FLIP, 100, 0),
        Damage(".logcleaner-holds", Kind.TRUNCATE, 1, 0),
    ],
    ids=lambda damage: f"{damage.file} {damage.kind}",
)
def test_what_was_found_does_not_come_back(subject: Subject, tmp_path: Path, damage: Damage) -> None:
    bases = [path.stem for path in sorted((subject.path / damage.file).parent.glob("*.log"))]
    found = Damage(damage.file.format(*bases), damage.kind, damage.position, damage.value)
    assert (subject.path / found.file).is_file()
    try_damages(subject, [found], tmp_path)
