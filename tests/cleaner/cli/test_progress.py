import io

import pytest

from cleaner.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *moments: float) -> str:
    """What a bar prints that starts at 0 and moves at these moments of its stopwatch."""
    clock = iter([0.0, *moments])
    monkeypatch.setattr("cleaner.cli.progress.stopwatch", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBar() as bar:
        for _ in moments:
            bar.advance(1 << 20)
    return stderr.getvalue()


def test_bar_shows_what_takes_over_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = shown(monkeypatch, Terminal(), 0.5, 1.5)
    assert "compacting" in printed
    assert "2.0" in printed


def test_bar_stays_away_from_what_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), 0.5, 0.9) == ""


def test_no_bar_is_piped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), 1.5, 2.5) == ""
