"""Notes of trials that passed: a long command that is begun again goes on behind them, until a source changes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.mutants.suite import ROOT, fingerprint


class Notes:
    """What passed on these sources; begun again, it goes on behind that."""

    def __init__(self, path: Path) -> None:
        self._path, self._sources = path, fingerprint(ROOT)
        noted = json.loads(path.read_text()) if path.exists() else {}
        self._passed: dict[str, int] = noted["passed"] if noted.get("sources") == self._sources else {}

    def __contains__(self, trial: str) -> bool:
        return trial in self._passed

    def note(self, trial: str, count: int) -> None:
        self._passed[trial] = count
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps({"sources": self._sources, "passed": self._passed}))

    def total(self, kind: str) -> int:
        return sum(count for trial, count in self._passed.items() if trial.startswith(kind))
