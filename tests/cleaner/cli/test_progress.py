import io

import pytest

from cleaner.cli.progress import ProgressBar, told


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


def test_bar_has_the_total_the_rate_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0])
    terminal = Terminal()
    monkeypatch.setattr("cleaner.cli.progress.stopwatch", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar(passes=2) as bar:
        bar.expect(8 << 20)
        bar.expect(2 << 20)
        bar.advance(4 << 20)
    assert "2.0 MiB of 10.0 MiB, 1.0 MiB/s, 8s left" in terminal.getvalue()


def test_second_run_has_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0, 2.0, 4.0])
    terminal = Terminal()
    monkeypatch.setattr("cleaner.cli.progress.stopwatch", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar() as bar:
        bar.expect(2 << 20)
        bar.advance(2 << 20)
        bar.begin_again()
        bar.expect(4 << 20)
        bar.advance(1 << 20)
    assert "1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6s left" in terminal.getvalue()


def test_bar_never_has_more_than_all(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 2.0])
    terminal = Terminal()
    monkeypatch.setattr("cleaner.cli.progress.stopwatch", lambda: next(clock))
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar() as bar:
        bar.expect(2 << 20)
        bar.advance(3 << 20)
    assert "2.0 MiB of 2.0 MiB, 1.0 MiB/s, 0s left" in terminal.getvalue()


@pytest.mark.parametrize(
    ("done_bytes", "all_bytes", "seconds", "words"),
    [
        (1 << 20, 0, 2.0, "1.0 MiB, 512.0 KiB/s"),
        (0, 1 << 20, 2.0, "0 bytes of 1.0 MiB, 0 bytes/s"),
        (2 << 20, 2 << 20, 1.0, "2.0 MiB of 2.0 MiB, 2.0 MiB/s, 0s left"),
        (1 << 20, 121 << 20, 60.0, "1.0 MiB of 121.0 MiB, 17.1 KiB/s, 2h left"),
    ],
)
def test_words_beside_the_bar(done_bytes: int, all_bytes: int, seconds: float, words: str) -> None:
    assert told(done_bytes, all_bytes, seconds) == words
