"""Whole lives of a log dir keep every law; those that once broke one are lived again.

``python -m tests.lives --lives 1000`` lives more of them.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.crash.conftest import MEMORY
from tests.interop.conftest import classpath_or_skip
from tests.interop.kafka_jars import judging_version
from tests.interop.referee import OLD_JVM_OPTIONS, Referee
from tests.lives.__main__ import main, own_scratch
from tests.lives.life import Happening, LifeStory, drawn
from tests.lives.living import lived, shrunk

LIVES: Final = 30
CORPUS: Final = sorted((Path(__file__).parent / "corpus").glob("*.json"))
SEEN: Final[Counter[str]] = Counter()


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A directory, in memory if possible."""
    return MEMORY if os.access(MEMORY, os.W_OK) else tmp_path


@pytest.mark.parametrize("seed", range(LIVES))
def test_life_keeps_every_law(seed: int, room: Path) -> None:
    verdict = lived(drawn(seed), room)
    SEEN.update(verdict.seen)
    if verdict.broken:
        pytest.fail(f"{shrunk(verdict, room)}\npython -m tests.lives --seed {seed}", pytrace=False)
    assert verdict.seen.total() >= len(verdict.story.happenings)


@pytest.fixture(scope="module")
def broker() -> Iterator[Referee]:
    """One JVM with Kafka's classes."""
    with Referee(classpath_or_skip(judging_version()), OLD_JVM_OPTIONS) as running:
        yield running


@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(LIVES // 10))
def test_life_with_kafka_keeps_every_law(seed: int, room: Path, broker: Referee) -> None:
    verdict = lived(drawn(seed, has_broker=True), room, referee=broker)
    if verdict.broken:
        pytest.fail(
            f"{shrunk(verdict, room, referee=broker)}\npython -m tests.lives --kafka --seed {seed}", pytrace=False
        )
    assert not verdict.broken


@pytest.mark.kafka
def test_life_with_a_whole_broker_keeps_every_law(room: Path) -> None:
    steps = [step for step in drawn(0, is_whole=True).happenings if step.kind not in {"broker", "wait"}][:8]
    for place, is_killed in ((3, True), (7, False), (10, False)):
        steps.insert(place, Happening("broker", {"dice": place, "kill": is_killed}))
    verdict = lived(LifeStory(tuple(steps)), room, classpath=classpath_or_skip(judging_version()))
    assert not verdict.broken, str(verdict)
    assert verdict.seen["broker"] == 3


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_life_that_once_broke_a_law_keeps_it(path: Path, room: Path) -> None:
    verdict = lived(LifeStory.from_json(path.read_text()), room)
    assert not verdict.broken, str(verdict)


def test_life_is_data() -> None:
    story = drawn(7)
    assert LifeStory.from_json(story.to_json()) == story


def test_command_replays_a_directory_of_lives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(LifeStory(drawn(7).happenings[:6]).to_json())
    assert main(["--replay", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 lives, 0 broke a law"


@pytest.mark.parametrize("words", [("--replay", "none.json"), ("--twins", "nobody")])
def test_command_tells_a_wrong_word_in_one_line(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_scratch_of_a_killed_run_is_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    with own_scratch(tmp_path) as living:
        killed = living.parent / "killed"
        killed.mkdir()
        with own_scratch(tmp_path) as other:
            assert set(living.parent.iterdir()) == {living, other}
        assert living.exists()


def test_ctrl_c_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tests.lives.__main__.live", lambda *_: signal.raise_signal(signal.SIGINT))
    assert main(["--seed", "1"]) == 130
    assert len(capsys.readouterr().err.splitlines()) == 1
