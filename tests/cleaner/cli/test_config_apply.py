"""``clean`` and ``config apply``: limits that were saved, and let much more go than those confirmed last."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.names import LIMITS_FILE
from tests.cleaner.daemon.test_reload_guard import AGES_DAYS, of
from tests.partition_dirs import DAY_MS, PartitionDir, committed, keyed
from tests.small_disks import a_small_disk, fill


class Place:
    """A log dir of one topic with six segments, and commands that go by a configuration file."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.log_dir, self._capsys = path, path / "data", capsys
        now_ms = time.time_ns() // 1_000_000
        orders = PartitionDir(self.log_dir, "orders-0")
        for base, days in zip(range(0, 12, 2), AGES_DAYS, strict=True):
            orders.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=now_ms - days * DAY_MS), mtime_ms=now_ms)
        committed(self.log_dir, orders)

    def run(self, text: str, *command: str, file: str = "c.toml") -> int:
        """Save a configuration, run a command on it, and return the exit status."""
        (self.path / file).write_text(text)
        status = main([*command, "--config", str(self.path / file), "--log-dir", str(self.log_dir)])
        told = self._capsys.readouterr()
        self.out, self.err = told.out, told.err
        return status

    @property
    def left(self) -> int:
        return len(list((self.log_dir / "orders-0").glob("*.log")))


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Place:
    found = Place(tmp_path, capsys)
    assert found.run(of(retention_ms="30d"), "clean") == 0
    assert (found.left, (found.log_dir / LIMITS_FILE).stat().st_mode & 0o777) == (6, 0o644)
    return found


SLIP = of(retention_ms="30m")


@pytest.mark.parametrize("command", [("clean",), ("clean", "-n"), ("free", "--target", "99%"), ("run", "--once")])
def test_each_run_holds_back_the_same_with_exit_5(place: Place, command: tuple[str, ...]) -> None:
    assert place.run(SLIP, *command) == 5
    assert place.left == 6
    assert place.run(SLIP, *command) == 5


def test_the_message_says_what_waits_and_what_to_do(place: Place) -> None:
    place.run(SLIP, "clean")
    (line,) = place.err.splitlines()
    assert "RELOAD_GUARD" in line
    assert "1,440 times shorter" in line
    assert "logcleaner config apply -n shows what waits" in line


def test_topics_that_wait_for_the_same_reason_have_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, capsys)
    more = [PartitionDir(place.log_dir, f"{topic}-0").segment(0, keyed(0, "a=1")) for topic in "abcdefg"]
    orders = PartitionDir(tmp_path / "elsewhere", "orders-0")
    orders.end_offset = 12
    committed(place.log_dir, orders, *more)
    every = '[topics."*"]\ncleanup.policy = "delete"\nretention.ms = "{}"\n'
    assert place.run(every.format("30d"), "clean") == 0
    for command in (("clean",), ("config", "apply", "-n")):
        place.run(every.format("30m"), *command)
        told = place.err if command == ("clean",) else place.out
        (line,) = [line for line in told.splitlines() if "times shorter" in line]
        assert f"{place.log_dir}: 8 topics (a, b, c, d, e and 3 more): waits for logcleaner config apply" in line


def test_a_copy_goes_by_the_limits_confirmed_last_too(place: Place) -> None:
    assert place.run(SLIP, "clean", "--output", str(place.path / "copy")) == 5
    assert len(list((place.path / "copy" / "orders-0").glob("*.log"))) == 6


def test_yes_confirms_for_good(place: Place) -> None:
    assert place.run(SLIP, "clean", "--yes") == 0
    assert place.left == 1
    assert place.run(SLIP, "clean") == 0


def test_apply_shows_then_confirms_and_deletes_nothing_itself(place: Place) -> None:
    before = (place.log_dir / LIMITS_FILE).read_bytes()
    assert place.run(SLIP, "config", "apply", "-n") == 0
    assert "orders-0: 5 segments more to be deleted" in place.out
    assert "nothing is confirmed yet" in place.out
    assert (place.log_dir / LIMITS_FILE).read_bytes() == before
    assert place.run(SLIP, "config", "apply") == 0
    assert "is confirmed" in place.out
    assert place.left == 6
    assert place.run(SLIP, "config", "apply") == 0
    assert "nothing waits" in place.out
    assert place.run(SLIP, "clean") == 0
    assert place.left == 1


def test_what_is_typed_for_one_run_needs_no_other_confirmation(place: Place) -> None:
    assert place.run(of(retention_ms="30d"), "clean", "--set", "retention.ms=30m") == 0
    assert place.left == 1
    assert place.run(SLIP, "clean") == 5  # and is not the limit of the file


def test_another_configuration_file_is_compared_with_the_one_used_last(place: Place) -> None:
    assert place.run(SLIP, "clean", file="other.toml") == 5
    assert place.left == 6
    assert place.run(SLIP, "config", "apply", file="other.toml") == 0
    assert place.run(SLIP, "clean", file="c.toml") == 5  # each file has its own
    assert place.run(SLIP, "clean", file="other.toml") == 0
    assert place.left == 1


def test_a_run_over_some_topics_confirms_nothing_for_the_others(place: Place) -> None:
    both = of(retention_ms="30d") + of("clicks", retention_ms="30d")
    assert place.run(both, "clean") == 0
    assert place.run(SLIP, "clean", "--topic", "orders-0", "--yes") == 0
    assert place.left == 1
    assert place.run(both.replace("30d", "30m"), "clean") == 5


def test_server_properties_are_a_file_that_somebody_edits_too(place: Place, capsys) -> None:
    file = place.path / "server.properties"
    command = ["clean", "--server-properties", str(file), "--log-dir", str(place.log_dir)]
    options = ["--set", "cleanup.policy=delete"]
    (place.log_dir / LIMITS_FILE).unlink()
    for hours, status in ((720, 0), (1, 5)):
        file.write_text(f"log.retention.hours={hours}\nlog.dirs={place.log_dir}\n")
        assert main([*command, *options]) == status
    assert place.left == 6


def test_without_a_file_there_is_nothing_to_confirm(place: Place, capsys) -> None:
    options = ["--log-dir", str(place.log_dir), "--set", "cleanup.policy=delete", "--set", "retention.ms=30m"]
    assert main(["config", "apply", *options]) == 2
    assert "has nothing to confirm" in capsys.readouterr().err
    assert main(["clean", *options]) == 0
    assert place.left == 1


@pytest.mark.parametrize("text", ["", "broken"])
def test_limits_that_cannot_be_read_hold_all_back_until_they_are_confirmed(place: Place, text: str) -> None:
    (place.log_dir / LIMITS_FILE).write_text(text)
    assert place.run(of(retention_ms="12d"), "clean") == 5
    assert (place.left, "nobody knows which limits were confirmed last" in place.err) == (6, True)
    assert place.run(of(retention_ms="12d"), "config", "apply") == 0
    assert place.run(of(retention_ms="12d"), "clean") == 0
    assert place.left == 4


def test_limits_that_cannot_be_written_are_told_and_the_run_goes_on(place: Place) -> None:
    (place.log_dir / LIMITS_FILE).unlink()
    (place.log_dir / LIMITS_FILE).mkdir()
    (place.log_dir / LIMITS_FILE / "x").touch()
    assert place.run(of(retention_ms="12d"), "clean") == 5
    assert place.run(of(retention_ms="12d"), "config", "apply") == 1
    assert LIMITS_FILE in place.err
    assert place.left == 6


def test_doctor_has_no_word_against_the_file(place: Place) -> None:
    assert place.run(SLIP, "verify") == 0
    place.run(of(retention_ms="30d"), "doctor")
    assert LIMITS_FILE not in place.out + place.err


def test_explain_tells_who_waits_for_whom(place: Place) -> None:
    place.run(SLIP, "explain", "orders-0")
    assert "config apply confirms it" in place.out
    assert "RELOAD_GUARD" in place.out


@pytest.mark.parametrize("words", [("-n",), ()])
def test_apply_on_a_full_disk_does_not_say_that_it_confirmed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with a_small_disk("tmpfs", tmp_path) as disk:
        place = Place(disk, capsys)
        place.path = tmp_path
        assert place.run(of(retention_ms="30d"), "clean") == 0
        fill(disk)
        assert place.run(SLIP, "config", "apply", *words) == 1
        assert ", and is confirmed" not in place.out
        assert "no space" in place.err
        assert place.run(SLIP, "clean") == 5
