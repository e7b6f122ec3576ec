from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.means import Means
from cleaner.engine.outcome import Outcome
from policies import Plan, Request
from policies.config.config_layers import Configured
from policies.plan import PartitionKey
from policies.rescue import Volume
from tests.cleaner.report.plans import a_dry_run, a_plan, a_run


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, answer: str, meanwhile: Callable[[], object] = str) -> None:
    """Have the questions of a command come to a terminal, and somebody answer them after a while."""

    def answered() -> str:
        meanwhile()
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("sys.stdin.readline", answered, raising=False)


@pytest.fixture(autouse=True)
def space_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """``free`` does not wait for the bytes that other processes take meanwhile."""
    monkeypatch.setattr("cleaner.engine.freeing.WAIT_SECONDS_MAX", 0.0)


@dataclass
class FakeCleaner:
    """Stands in for the engine: gives the plan it was handed, and remembers what it was asked."""

    given: Plan = field(default_factory=a_plan)
    dry_outcome: Callable[[Plan], Outcome] = a_dry_run
    done_outcome: Callable[[Plan], Outcome] = a_run
    raises: BaseException | None = None
    failed: str = ""
    while_cleaning: Callable[[], object] = lambda: None
    log_dirs: Sequence[Path] = ()
    threads: int = 0
    asked: list[tuple[str, Any]] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    stopped: bool = False

    def open(
        self,
        configured: Configured,
        means: Means,
        *,
        locks: object,
        compactor: object,
        read_again: Callable[[], Any],
    ) -> FakeCleaner:
        self.read_again = read_again
        self.log_dirs, self.threads, self.listener = configured.log_dirs, means.threads, means.listener
        self.compactor = compactor
        return self

    def plan(self, request: Request, listed: object = None, *, is_glance: bool = False) -> Plan:
        self._remember("plan", request)
        return self.given

    def volumes(self) -> tuple[Volume, ...]:
        return ()

    def uncleanable(self, plan: Plan) -> dict[PartitionKey, str]:
        return {partition.key: self.failed for partition in plan.partitions if self.failed}

    def would_do(self, plan: Plan, **options: object) -> Outcome:
        self.asked.append(("would_do", options))
        return self.dry_outcome(plan)

    def what_if(self, plan: Plan, outcome: Outcome, questions: Sequence[object], **options: object) -> tuple[()]:
        self.asked.append(("what_if", tuple(questions)))
        return ()

    def runways(self, plan: Plan) -> tuple[()]:
        return ()

    def clean(self, request: Request) -> tuple[Plan, Outcome]:
        self._remember("clean", request)
        self.while_cleaning()
        return self.given, self.done_outcome(self.given)

    def copy(self, request: Request, output: Path, **options: object) -> Any:
        self._remember("copy", request)
        self.asked.append(("output", output))
        return self.given, self.done_outcome(self.given)

    def stop(self) -> None:
        self.stopped = True

    def _remember(self, what: str, request: Request) -> None:
        if self.raises:
            raise self.raises
        self.asked.append((what, request.topics))
        self.requests.append(request)


def a_log_dir(path: Path) -> Path:
    """One without partitions."""
    path.mkdir(exist_ok=True)
    (path / "meta.properties").touch()
    return path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeCleaner:
    fake = FakeCleaner()
    monkeypatch.setattr("cleaner.engine.cleaner.Cleaner", fake.open)
    return fake


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., int]:
    """Run a command on a log dir without partitions."""
    a_log_dir(tmp_path)

    def run_command(command: str, *options: str) -> int:
        return main([command, "--log-dir", str(tmp_path), *options])

    return run_command
