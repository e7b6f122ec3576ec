"""Random logs, cleaned by Kafka on one copy and by us on another: the results are equal in all that they hold.

The day draws 24 of 200. ``LOGCLEANER_RANDOM_LOGS=5000`` compares that many; a failing one comes back by its day or that
variable, and ``-k 'log[17]'``.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from policies.plan import PartitionPlan
from storage.scan import segments
from storage.txn_index import parse_txn_index
from tests.interop.referee import Referee
from tests.interop.scenarios import Scenario, Step, scenario
from tests.interop.sides import (
    PARTITION,
    clean_with_ours,
    copy,
    differences,
    files_of,
    partition_dir,
    reopened_after_a_crash,
    side,
    untouched,
)
from tests.interop.tally import TALLY
from tests.interop.verdicts import Log, Round
from tests.sampled import some

pytestmark = pytest.mark.kafka

LOGS_IN_CI: Final = 24
ASKED: Final = os.environ.get("LOGCLEANER_RANDOM_LOGS")
SEEDS: Final = range(int(ASKED)) if ASKED else some(range(200), LOGS_IN_CI)
SHAPES: Final[Counter[str]] = Counter()
"""How many rounds had what makes a round worth comparing."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_log(referee: Referee, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    if seed % 2:  # each batch a slice of its own: these logs are smaller than a window
        monkeypatch.setattr(segments, "WINDOW_BYTES", 1)
    drawn = scenario(seed)
    log_dir, now_ms = tmp_path / "round-0", 0
    log_dir.mkdir()
    for number in range(len(drawn.steps)):
        now_ms = prepare(referee, log_dir, drawn, number, now_ms)
        ours = cleaned_by_both(referee, log_dir, drawn, number, now_ms)
        log_dir = copy(ours, f"round-{number + 1}")
    shutil.rmtree(tmp_path)


def prepare(referee: Referee, log_dir: Path, drawn: Scenario, number: int, now_ms: int) -> int:
    """Append what the step appends, set what it sets; gives the moment of the round."""
    step = drawn.steps[number]
    if step.appends:
        (generated,) = referee.workload(
            [partition_dir(log_dir)],
            seed=drawn.seed * len("rounds") + number,
            config={**drawn.appending, "message.timestamp.type": step.timestamp_type},
            now_ms=now_ms or None,
            checkpoints=True,
            steps=step.appends,
            codecs=drawn.codecs,
            unkeyed=step.unkeyed,
        )
        now_ms = generated.now_ms
    place_offsets(log_dir, step)
    now_ms += step.wait_ms
    # A starting broker takes away what is stray: then what is missing afterwards was taken away by the round.
    referee.read([partition_dir(log_dir)], now_ms=now_ms, checkpoints=True, batches_only=True, config=drawn.cleaning)
    return now_ms


def place_offsets(log_dir: Path, step: Step) -> None:
    """Write the checkpoints that a DeleteRecords, a lagging follower or an earlier clean would have left."""
    end = checkpointed(log_dir, "recovery-point-offset-checkpoint")
    first_base = min(int(path.stem) for path in partition_dir(log_dir).glob("*.log"))
    start = max(first_base, checkpointed(log_dir, "log-start-offset-checkpoint"))
    shares = {
        "log-start-offset-checkpoint": step.log_start,
        "replication-offset-checkpoint": step.high_watermark,
        "cleaner-offset-checkpoint": step.first_dirty,
    }
    for name, share in shares.items():
        if share is not None:
            offset = max(0, start + round(share * (end - start)))
            if name == "cleaner-offset-checkpoint":
                offset = where_both_agree(log_dir, offset)
            (log_dir / name).write_text(f"0\n1\n{PARTITION.topic} {PARTITION.partition} {offset}\n")


def where_both_agree(log_dir: Path, first_dirty: int) -> int:
    """The base of its segment where a transaction was aborted between the two, else the offset itself.

    Mapping the keys, Kafka takes that transaction as still going on, and so later committed records of its producer as
    aborted: it keeps what they supersede. ``test_differences`` has what we do.
    """
    bases = [int(path.stem) for path in partition_dir(log_dir).glob("*.log")]
    base = max((base for base in bases if base <= first_dirty), default=first_dirty)
    index = partition_dir(log_dir) / f"{base:020}.txnindex"
    entries = parse_txn_index(index.read_bytes(), index) if index.exists() else []
    return base if any(entry.last_offset < first_dirty for entry in entries) else first_dirty


def checkpointed(log_dir: Path, name: str) -> int:
    """What a checkpoint of one line says, 0 where it is absent."""
    path = log_dir / name
    return int(path.read_text().split()[-1]) if path.exists() else 0


def cleaned_by_both(referee: Referee, log_dir: Path, drawn: Scenario, number: int, now_ms: int) -> Path:
    """One round by each, on copies; gives the log dir that ours left."""
    TALLY.rounds += 1
    theirs, own = copy(log_dir, f"{log_dir.name}-kafka"), copy(log_dir, f"{log_dir.name}-ours")
    before = files_of(partition_dir(own))
    (found,) = referee.clean(
        [partition_dir(theirs)], config=drawn.cleaning, now_ms=now_ms, checkpoints=True, expires=True
    )
    plan = clean_with_ours(own, drawn.cleaning, now_ms)
    left = files_of(partition_dir(own))
    as_before = untouched(before, left)
    opened = copy(own, f"{log_dir.name}-opened")
    kafka, ours = (side(referee, partition_dir(path), now_ms, drawn.cleaning) for path in (theirs, opened))
    told = [*rounds_differ(found, plan), *differences(kafka, ours, as_before)]
    assert not told, "\n".join(told)
    crashed = copy(own, f"{log_dir.name}-crashed")
    reopened_after_a_crash(referee, crashed, ours, drawn.cleaning, now_ms, as_before)
    SHAPES.update(shapes(before.keys() - left.keys(), drawn.steps[number], found, plan, ours.log, as_before))
    return own


def rounds_differ(kafka: Round, plan: PartitionPlan) -> list[str]:
    """Whether both cleaned the same section."""
    ours = plan.compaction.round if plan.compaction else None
    own = (ours.first_dirty_offset, ours.end_offset) if ours else (None, None)
    theirs = (kafka.first_dirty_offset, kafka.end_offset)
    return [] if own == theirs else [f"section: kafka {theirs}, ours {own}"]


def shapes(
    gone: set[str], step: Step, found: Round, plan: PartitionPlan, after: Log, as_before: frozenset[str]
) -> list[str]:
    """What the round had of all that can make a difference."""
    batches = list(after.batches())
    first_base = after.segments[0].base_offset
    bases = {segment.base_offset for segment in plan.facts.segments}
    had = {
        "cleaned": found.end_offset is not None,
        "not cleaned": found.end_offset is None,
        "merged": plan.compaction is not None and any(len(group) > 1 for group in plan.compaction.round.groups),
        "left as it was": any(name.endswith(".log") for name in as_before),
        "expired": plan.deletion is not None,
        "log start within a segment": after.log_start_offset > first_base,
        "first dirty within a segment": found.first_dirty_offset is not None and found.first_dirty_offset not in bases,
        "high watermark below the end": after.high_watermark < after.log_end_offset,
        "open transaction": after.last_stable_offset < after.high_watermark,
        "unkeyed dropped": found.invalid_records > 0,
        "delete horizon": any(batch.delete_horizon_ms is not None for batch in batches),
        "empty batch": any(batch.count == 0 for batch in batches),
        "aborted transactions": any(segment.aborted_txns for segment in after.segments),
        "active producers": bool(after.producers),
        "no active producer": not after.producers,
        "leader epochs": len(after.leader_epochs) > 1,
        "log append time": any(batch.timestamp_type == "LogAppendTime" for batch in batches),
        "snapshot retired": any(name.endswith(".snapshot") for name in gone),
        "nothing appended": step.appends == 0,
        **{f"codec {batch.codec}": True for batch in batches},
    }
    return [shape for shape, is_there in had.items() if is_there]


def test_every_shape_occurred() -> None:
    if TALLY.rounds < LOGS_IN_CI:
        pytest.skip("only some of the random logs were compared")
    print(dict(SHAPES))
    assert min(SHAPES.values()) >= 1  # the rarest is in every third log
    assert len(SHAPES) == 24
