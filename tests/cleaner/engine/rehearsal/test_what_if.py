"""The figures of each answer are those of a run with that value, on a copy of the same log dir."""

from __future__ import annotations

import random
import shutil
import struct
from itertools import product
from operator import itemgetter
from pathlib import Path

import pytest

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine import inventory
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.means import Means, Silent
from cleaner.engine.outcome import Outcome
from policies import Plan, Request
from policies.config.config_layers import Configured
from policies.forecast.what_if import ANSWERED, ANSWERED_EXACTLY, questions_of
from policies.planning import held_back
from storage.checkpoints import format_offset_checkpoint
from storage.errors import InvalidConfigs
from storage.log_dir import LogDir
from storage.names import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, parse_topic_partition
from storage.records import Record, encode_batch
from tests.cleaner.engine.rehearsal.runs import figures_of
from tests.conftest import Samples
from tests.legacy_logs import legacy_log_dir
from tests.partition_dirs import DAY_MS, NOW_MS, FakeClock, PartitionDir, a_cleaner, committed, configured, keyed
from tests.sampled import one_of_each

HOUR_MS = 3_600_000
VALUES = {
    "cleanup.policy": ("delete", "compact", "[compact,delete]"),
    "retention.ms": ("7d", "1d", "3d", "0", "-1", "400d"),
    "retention.bytes": ("0", "400", "2000", "-1"),
    "retention.future.timestamps": ("mtime", "off"),
    "max.delete.ratio": ("0.1", "0.5", "1"),
    "min.cleanable.dirty.ratio": ("0", "0.4", "1"),
    "min.compaction.lag.ms": ("0", "1d", "4d"),
    "max.compaction.lag.ms": ("2d", "30d"),
    "max.unkeyed.ratio": ("0", "0.2", "1"),
    "delete.retention.ms": ("0", "1d", "30d"),
    "compaction.upgrade.format": ("true", "false"),
}
TOPICS = {
    "clicks": {"cleanup.policy": "delete", "retention.ms": "5d"},
    "audit": {"cleanup.policy": "delete", "retention.bytes": "1000"},
    "orders": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"},
    "sessions": {"cleanup.policy": "compact,delete", "retention.ms": "4d", "min.compaction.lag.ms": "2d"},
    "__consumer_offsets": {"cleanup.policy": "compact,delete"},
}


def test_every_key_that_has_an_answer_is_asked_here() -> None:
    assert VALUES.keys() == ANSWERED | ANSWERED_EXACTLY


@pytest.mark.parametrize(("key", "seed"), one_of_each([*product(VALUES, range(4))], itemgetter(0)))
def test_each_answer_is_what_a_run_with_that_value_does(key: str, seed: int, tmp_path: Path) -> None:
    drawn = a_random_log_dir(tmp_path / "data", random.Random(f"{key} {seed}"))
    cleaner, request = a_cleaner(drawn, configured(**TOPICS)), Request(NOW_MS)
    plan, outcome = looked_at(cleaner, request)
    values = random.Random(seed).sample(VALUES[key], len(VALUES[key]))  # the order of the values does not matter
    (answered,) = cleaner.what_if(plan, outcome, questions_of([f"{key}={','.join(values)}"], is_exact=True), exact=True)
    for answer, value in zip(answered.answers, values, strict=True):
        copied = Path(shutil.copytree(drawn, tmp_path / f"run with {value}"))
        run = a_cleaner(copied, configured(f"{key}={value.strip('[]')}", **TOPICS))
        assert figures_of(answer.plan, answer.outcome) == figures_of(*run.clean(request)), value
        assert bytes_left(copied) == expected_left(answer.plan, answer.outcome), value
    assert figures_of(plan, outcome) == figures_of(*looked_at(cleaner, request))


@pytest.mark.parametrize(("key", "seed"), one_of_each([*product(VALUES, range(3))], itemgetter(0)))
def test_each_answer_over_messages_of_versions_0_and_1_is_what_a_run_with_that_value_does(
    key: str, seed: int, tmp_path: Path
) -> None:
    source = tmp_path / "data"
    committed(source, *(legacy_log_dir(source, seed * 7 + place, f"{name}-0") for place, name in enumerate(TOPICS)))
    cleaner, request = a_cleaner(source, configured(**TOPICS)), Request(NOW_MS)
    plan, outcome = looked_at(cleaner, request)
    option = f"{key}={','.join(VALUES[key])}"
    (answered,) = cleaner.what_if(plan, outcome, questions_of([option], is_exact=True), exact=True)
    for answer, value in zip(answered.answers, VALUES[key], strict=True):
        copied = Path(shutil.copytree(source, tmp_path / f"run with {value}"))
        run = a_cleaner(copied, configured(f"{key}={value.strip('[]')}", **TOPICS))
        assert figures_of(answer.plan, answer.outcome) == figures_of(*run.clean(request)), value
        assert bytes_left(copied) == expected_left(answer.plan, answer.outcome), value


def looked_at(cleaner: Cleaner, request: Request) -> tuple[Plan, Outcome]:
    """Return the plan with the configuration in force, as ``clean --dry-run --exact`` makes it, and its outcome."""
    plan = cleaner.plan(request)
    outcome = cleaner.would_do(plan, exact=True)
    return held_back(plan, outcome.guards), outcome


def a_random_log_dir(path: Path, chance: random.Random) -> Path:
    """Partitions whose segments are of several ages; some indexes end early, some times lie in the future."""
    path.mkdir()
    partitions = [
        a_random_partition(path, f"{topic}-{number}", chance)
        for topic in TOPICS
        for number in range(chance.choice((1, 2)))
    ]
    committed(path, *partitions)
    cleaned = {p: chance.randrange(p.end_offset + 1) for p in partitions if chance.random() < 0.4}
    starts = {p: chance.randrange(p.end_offset + 1) for p in partitions if chance.random() < 0.2}
    for name, offsets in ((CLEANER_OFFSET_CHECKPOINT, cleaned), (LOG_START_OFFSET_CHECKPOINT, starts)):
        named = {parse_topic_partition(p.path.name): offset for p, offset in offsets.items()}
        (path / name).write_bytes(format_offset_checkpoint(named))  # type: ignore[arg-type]
    return path


def unkeyed(base_offset: int, /, *values: str, timestamp_ms: int) -> bytes:
    """Return a batch whose records have no keys: a compaction drops them."""
    records = [Record(base_offset + place, timestamp_ms, None, value.encode()) for place, value in enumerate(values)]
    return encode_batch(records)


def a_random_partition(log_dir: Path, name: str, chance: random.Random) -> PartitionDir:
    drawn = PartitionDir(log_dir, name)
    ages_ms = sorted((chance.randrange(10 * DAY_MS) for _ in range(chance.randrange(1, 7))), reverse=True)
    for age_ms in ages_ms:
        newest_ms = NOW_MS - age_ms if chance.random() < 0.9 else NOW_MS + DAY_MS
        base, batches = drawn.end_offset, []
        for place in range(chance.randrange(1, 5)):
            keys = [f"k{chance.randrange(6)}" + chance.choice(("=" + "v" * chance.randrange(60), "")) for _ in range(3)]
            batch = keyed if chance.random() < 0.8 else unkeyed
            batches.append(batch(base + 3 * place, *keys, timestamp_ms=newest_ms - place))
        drawn.segment(base, *batches, mtime_ms=NOW_MS - age_ms)
        if chance.random() < 0.3:  # an index that was cut short tells a time too old
            index = drawn.log(base).with_suffix(".timeindex")
            index.write_bytes(struct.pack(">qi", newest_ms - chance.randrange(5 * DAY_MS), 0))
    return drawn


def bytes_left(log_dir: Path) -> dict[str, int]:
    """The size of the ``.log`` files of each partition."""
    return {
        path.name: sum(log.stat().st_size for log in path.glob("*.log")) for path in log_dir.iterdir() if path.is_dir()
    }


def expected_left(plan: Plan, outcome: Outcome) -> dict[str, int]:
    """The same, as planned."""
    left = {}
    for partition in plan.partitions:
        gone = sum(s.size_bytes for s in partition.deletion.segments) if partition.deletion else 0
        result = outcome.results.get(partition.key)
        shrunk = result.compacted_from_bytes - result.compacted_to_bytes if result else 0
        left[str(partition.facts.topic_partition)] = partition.facts.size_bytes - gone - shrunk
    return left


SAMPLED = ("clicks-0", "clicks-1", "mixed-0", "ledger-0", "payments-0", "sized-0", "trimmed-0", "future-0", "keyless-0")


@pytest.mark.parametrize("stage", ["before", "after", "before2"])
@pytest.mark.parametrize(
    "option",
    [
        *("retention.ms=1d,3d,12h", "retention.bytes=1MiB,3MB", "retention.future.timestamps=mtime"),
        *("min.cleanable.dirty.ratio=0.01,1", "min.compaction.lag.ms=1h,2d", "max.compaction.lag.ms=1h"),
        *(
            "delete.retention.ms=1,2d",
            "max.delete.ratio=0.3",
            "max.unkeyed.ratio=0.2,0.9",
            "cleanup.policy=[compact,delete],delete",
        ),
    ],
)
def test_answers_over_logs_of_a_broker_are_what_a_run_does(
    samples: Samples, stage: str, option: str, tmp_path: Path
) -> None:
    now_ms = samples.cleaned_at_ms("after2")
    source = samples.copy(stage, tmp_path / "data", SAMPLED)
    cleaner, request = sampled(source), Request(now_ms)
    plan, outcome = looked_at(cleaner, request)
    (answered,) = cleaner.what_if(plan, outcome, questions_of([option], is_exact=True), exact=True)
    for answer in answered.answers:
        value = answer.value.value
        text = ",".join(value) if isinstance(value, tuple) else str(value)
        copied = Path(shutil.copytree(source, tmp_path / text))
        done = sampled(copied, f"{answer.value.key}={text}").clean(request)
        assert figures_of(answer.plan, answer.outcome) == figures_of(*done)
        shutil.rmtree(copied)


def sampled(path: Path, *set_options: str) -> Cleaner:
    loaded = load_layers(Settings(kafka_defaults=True), [path], set_options)
    return Cleaner(loaded.configured)


@pytest.mark.parametrize("values", ["7d,30d,3d,1d,36h,-1", "1d,0"])
def test_facts_are_read_again_once_for_the_value_that_needs_most(
    values: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = PartitionDir(tmp_path, "clicks-0").segment(0, keyed(0, "a=1"), mtime_ms=NOW_MS)
    old = PartitionDir(tmp_path, "clicks-1")
    for base, age_ms in enumerate((2 * DAY_MS, DAY_MS // 2, 0)):
        old.segment(base, keyed(base, "a=1", timestamp_ms=NOW_MS - age_ms))
    committed(tmp_path, young, old)
    read: list[str] = []
    survey_again = inventory.survey_again

    def counting(log_dir: LogDir, known, *others):
        read.append(str(known.topic_partition))
        return survey_again(log_dir, known, *others)

    monkeypatch.setattr("cleaner.engine.rehearsal.what_if.survey_again", counting)
    cleaner = a_cleaner(tmp_path, configured(clicks={"cleanup.policy": "delete", "retention.ms": "7d"}))
    plan = cleaner.plan(Request(NOW_MS))
    questions = questions_of([f"retention.ms={values}", "retention.bytes=0"], is_exact=False)
    cleaner.what_if(plan, cleaner.would_do(plan), questions)
    assert read == ["clicks-1"]


def test_the_lag_goes_by_the_index_where_a_longer_limit_has_no_end_read(tmp_path: Path) -> None:
    """With 2 days, time retention reads the end of the first segment, and finds it too young for both."""
    drawn = PartitionDir(tmp_path / "data", "sessions-0")
    drawn.segment(0, keyed(0, "a=1", timestamp_ms=NOW_MS - HOUR_MS)).segment(1, keyed(1, "a=2"))
    drawn.log(0).with_suffix(".timeindex").write_bytes(struct.pack(">qi", NOW_MS - 5 * DAY_MS, 0))
    source = committed(tmp_path / "data", drawn)
    topics = {"sessions": {"cleanup.policy": "compact,delete", "retention.ms": "2d", "min.compaction.lag.ms": "1d"}}
    cleaner = a_cleaner(source, configured(**topics))
    plan = cleaner.plan(Request(NOW_MS))
    (answered,) = cleaner.what_if(
        plan, cleaner.would_do(plan), questions_of(["retention.ms=7d"], is_exact=True), exact=True
    )
    answer = answered.answers[0]
    assert (plan.has_work, answer.plan.has_work) == (False, True)
    copied = Path(shutil.copytree(source, tmp_path / "copy"))
    done = a_cleaner(copied, configured("retention.ms=7d", **topics)).clean(Request(NOW_MS))
    assert figures_of(answer.plan, answer.outcome) == figures_of(*done)


def test_progress_expects_what_each_answer_reads_and_an_equal_plan_reads_nothing(tmp_path: Path) -> None:
    class Hearing(Silent):
        expected_bytes = 0

        def expect(self, size_bytes: int) -> None:
            self.expected_bytes += size_bytes

    drawn = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1")).segment(1, keyed(1, "a=2"))
    layers = configured(orders={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"})
    means = Means(clock=FakeClock(), listener=(heard := Hearing()))
    cleaner = Cleaner(Configured((committed(tmp_path, drawn),), layers), means)
    plan, outcome = looked_at(cleaner, Request(NOW_MS))
    once_bytes = heard.expected_bytes
    assert once_bytes > 0
    cleaner.what_if(plan, outcome, questions_of(["min.compaction.lag.ms=0"], is_exact=True), exact=True)
    assert heard.expected_bytes == once_bytes
    cleaner.what_if(plan, outcome, questions_of(["delete.retention.ms=5,6"], is_exact=True), exact=True)
    assert heard.expected_bytes == 3 * once_bytes


def test_a_contradiction_with_the_configuration_is_an_error(tmp_path: Path) -> None:
    committed(tmp_path, PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1")))
    cleaner = a_cleaner(tmp_path, configured("max.compaction.lag.ms=1d", orders={"cleanup.policy": "compact"}))
    plan = cleaner.plan(Request(NOW_MS))
    with pytest.raises(InvalidConfigs, match=r"--what-if: min\.compaction\.lag\.ms"):
        cleaner.what_if(plan, cleaner.would_do(plan), questions_of(["min.compaction.lag.ms=2d"], is_exact=False))
