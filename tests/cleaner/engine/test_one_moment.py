"""A one-shot run acts on facts that it read under its lock, and so obeys a broker's change between the plan and the
lock.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from tests.metadata_dirs import alter, metadata_log, write_metadata
from tests.partition_dirs import COMPACT, DAY_MS, PartitionDir, committed, keyed

KEEP_ALL = {"retention.ms": "-1", "retention.bytes": "-1"}
COMMANDS = (
    ("clean",),
    ("clean", "--yes", "--force-compaction"),
    ("clean", "--delete-delay", "0"),
    ("free", "--target", "100%"),
    ("free", "--target", "100%", "--compact"),
)


@pytest.fixture
def log_dir(tmp_path) -> Path:
    """All of ``orders`` expired long ago, and ``state`` can be compacted."""
    return drawn(tmp_path / "data")


def drawn(path: Path) -> Path:
    orders, state = PartitionDir(path, "orders-0"), PartitionDir(path, "state-0")
    for base in (0, 2, 4):
        orders.segment(base, keyed(base, "a=1", "b=2", timestamp_ms=1_000))
        state.segment(base, keyed(base, "a=1", f"b={base}", timestamp_ms=1_000))
    write_metadata(path, orders={"cleanup.policy": "delete", "retention.ms": str(DAY_MS)}, state=COMPACT)
    return committed(path, orders, state)


@pytest.fixture
def before_the_lock(monkeypatch):
    """Have something happen after the first reading, right before the lock of a log dir is taken; once."""

    def arrange(happens) -> None:
        waiting = [happens]
        lock = LogDir.lock

        def taken(self, *args, **kwargs):
            if waiting:
                waiting.pop()()
            return lock(self, *args, **kwargs)

        monkeypatch.setattr(LogDir, "lock", taken)

    return arrange


def logs(log_dir: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(log_dir.glob("[os]*-0/*.log"))}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_without_anything_in_between_it_changes_the_logs(log_dir, command):
    before = logs(log_dir)
    main([*command, "--log-dir", str(log_dir)])
    assert logs(log_dir) != before


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_broker_that_alters_topics_and_stops_is_obeyed(log_dir, command, before_the_lock):
    before = logs(log_dir)
    before_the_lock(lambda: alter(log_dir, orders=KEEP_ALL, state={"cleanup.policy": "delete", **KEEP_ALL}))
    main([*command, "--log-dir", str(log_dir)])
    assert logs(log_dir) == before


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_metadata_that_cannot_be_read_any_more_changes_nothing(log_dir, command, before_the_lock, capsys):
    before = logs(log_dir)
    data = metadata_log(log_dir).read_bytes()
    before_the_lock(lambda: metadata_log(log_dir).write_bytes(data[:70] + bytes([data[70] ^ 1]) + data[71:]))
    assert main([*command, "--log-dir", str(log_dir)]) != 0
    assert str(metadata_log(log_dir)) in capsys.readouterr().err
    assert logs(log_dir) == before
    with LogDir(log_dir).lock(FileSystem()):
        pass  # it was let go


def test_log_dirs_that_change_meanwhile_end_it(tmp_path, before_the_lock, capsys):
    """Nobody was shown what goes in the other one."""
    one, other = drawn(tmp_path / "one"), drawn(tmp_path / "other")
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={one}\n")
    before_one, before_other = logs(one), logs(other)
    before_the_lock(lambda: properties.write_text(f"log.dirs={other}\n"))
    assert main(["clean", "--server-properties", str(properties)]) == 5
    assert f"would let more go: log.dirs={other}" in capsys.readouterr().err
    assert (logs(one), logs(other)) == (before_one, before_other)


def test_limits_of_server_properties_that_change_meanwhile_are_obeyed(tmp_path, before_the_lock):
    log_dir = drawn(tmp_path / "data")
    metadata_log(log_dir).unlink()
    metadata_log(log_dir).parent.rmdir()
    write_metadata(log_dir, orders={}, state={})
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={log_dir}\nlog.retention.ms=1000\n")
    before = logs(log_dir)
    before_the_lock(lambda: properties.write_text(f"log.dirs={log_dir}\nlog.retention.ms=-1\n"))
    assert main(["clean", "--server-properties", str(properties)]) == 0
    assert logs(log_dir) == before


def test_what_the_cluster_lets_go_meanwhile_ends_it(log_dir, before_the_lock, monkeypatch, capsys):
    """The answer on the terminal confirms the plan that was shown, not a state that a broker has made since."""
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    monkeypatch.setattr("sys.stderr", Terminal())
    before = logs(log_dir)
    args = ["clean", "--only", "retention", "--set", "max.delete.ratio=0.1", "--log-dir", str(log_dir)]
    grown = {"cleanup.policy": "delete", "retention.ms": "1"}
    before_the_lock(lambda: alter(log_dir, state=grown))
    assert main(args) == 5
    assert logs(log_dir) == before
