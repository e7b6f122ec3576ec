"""Every small log, whatever happens to it, to a depth that takes seconds; ``python -m tests.models`` goes deeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.reasons import ReasonCode
from policies.retain import Marker
from storage.kernels.status import BatchFate
from storage.scan import segments
from tests.builders import NOW_MS
from tests.kafka_rounds import RecordFate
from tests.models import __main__ as command
from tests.models.small_logs.exploration import Exploration, Tally
from tests.models.small_logs.invariants import Violation
from tests.models.small_logs.on_disk import check_engine, laid_down, read_back
from tests.models.small_logs.scenarios import SCENARIOS
from tests.models.small_logs.twins import TWINS, Twin, violation_of
from tests.models.small_logs.world import Batch, Record, Segment, World

DEPTH = 4
SAMPLES = 15


@pytest.fixture(scope="module")
def explored() -> Tally:
    total = Tally()
    for scenario in SCENARIOS:
        total.add(Exploration(scenario, samples=SAMPLES).run(DEPTH))
    return total


def test_no_step_of_any_small_log_violates_an_invariant(explored: Tally) -> None:
    assert explored.states > 30_000
    assert explored.rounds > 10_000
    assert explored.deletions > 500
    assert explored.settled > 500


def test_every_reason_and_every_fate_occurs(explored: Tally) -> None:
    assert explored.codes == set(ReasonCode)
    assert explored.fates == {*BatchFate, *RecordFate} - {RecordFate.BEYOND_THE_MAP}  # no round ends within a segment


@pytest.mark.parametrize("window_bytes", [segments.WINDOW_BYTES, 1], ids=["slices of many batches", "of one batch"])
def test_the_engine_makes_of_sampled_logs_what_the_model_made(
    explored: Tally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window_bytes: int
) -> None:
    monkeypatch.setattr(segments, "WINDOW_BYTES", window_bytes)
    assert len(explored.samples) == SAMPLES * len(SCENARIOS)
    for place, sample in enumerate(explored.samples):
        check_engine(sample, tmp_path / str(place))


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_broken_twin_is_caught(twin: Twin) -> None:
    with pytest.raises(Violation, match=twin.complaint):
        raise violation_of(twin, DEPTH) or AssertionError("not caught")


def test_a_log_laid_down_is_read_back_as_it_was(tmp_path: Path) -> None:
    batches = (
        Batch(4, 5, NOW_MS - 3, (Record(4, "a", False), Record(5, None, True)), horizon_ms=NOW_MS + 2),
        Batch(6, 7, NOW_MS, (), 2, 1, 8, is_transactional=True),
        Batch(8, 8, NOW_MS, (), 2, 1, -1, is_transactional=True, marker=Marker.COMMIT, horizon_ms=NOW_MS),
        Batch(9, 9, NOW_MS, (), 2, 1, -1, is_transactional=True, marker=Marker.NONE),
    )
    world = World((Segment(4, NOW_MS - 1, batches), Segment(10, NOW_MS)), 4, 10, 10, 10)
    laid_down(world, tmp_path)
    assert read_back(tmp_path, world) == world
    assert (tmp_path / "orders-0" / f"{4:020d}.log").stat().st_size == world.segments[0].size_bytes


@pytest.mark.parametrize("letter", ["-", "%"])
def test_an_engine_that_differs_from_the_model_is_caught(letter: str, explored: Tally, tmp_path: Path) -> None:
    sample = next(sample for sample in explored.samples if sample.letter == letter)
    with pytest.raises(Violation, match="the engine differs"):
        check_engine(sample._replace(after=sample.before), tmp_path)


def test_the_command_tells_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--depth", "1", "--samples", "1"]) == 1  # too shallow for every reason
    told = capsys.readouterr().out
    assert "violations 0" in told
    assert "broken twins caught" in told
