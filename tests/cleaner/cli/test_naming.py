"""Names that match nothing: a topic, a partition, a pattern, a log dir."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main
from cleaner.cli.parser import nearest
from storage.names import JOURNAL_FILE
from tests.ordinary import run_as_ordinary_user

READING = [("clean", "--dry-run"), ("topics",), ("history",), ("restore",), ("restore", "--all", "--dry-run")]
CHANGING = [("clean",), ("free", "--target", "100%"), ("restore", "--all"), ("restore", "--all", "--release")]


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


def files_of(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.name != ".lock")


@pytest.mark.parametrize("command", [*READING, *CHANGING, ("free", "--target", "1MiB")])
def test_topic_that_no_log_dir_has_is_wrong_usage_with_the_nearest_name(command, log_dir: Path, capsys) -> None:
    before = files_of(log_dir)
    assert main([*command, "--log-dir", str(log_dir), "--topic", "ordres"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"logcleaner: --topic = 'ordres': matches no topic and no partition of {log_dir}")
    assert told.err.endswith("; did you mean orders?\n")
    assert told.out == ""
    assert files_of(log_dir) == before


def test_each_glob_without_a_match_has_its_line(demo: Path, capsys) -> None:
    assert main(["topics", "--log-dir", str(demo), "--topic", "orders", "click-0", "zz*", "ORDERS", "zz*"]) == 2
    first, second, third = capsys.readouterr().err.splitlines()
    assert "'click-0'" in first
    assert first.endswith("did you mean clicks-0?")
    assert second.endswith("logcleaner topics lists what is there")
    assert third.endswith("did you mean orders?")


@pytest.mark.parametrize("glob", ["orders", "orders-1", "ord*", "orders-?", "*"])
def test_glob_over_topics_or_partitions_matches_in_any_of_the_log_dirs(glob, log_dir: Path, tmp_path, capsys) -> None:
    other = tmp_path / "other"
    (other / "clicks-1").mkdir(parents=True)
    assert main(["topics", "--log-dir", str(other), str(log_dir), "--topic", glob, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("__cluster_metadata-0", "never touched: it holds the cluster metadata"),
        ("orders-0.0123456789abcdef0123456789abcdef-future", "never touched: a broker moves a replica there"),
        ("orders-0.0123456789abcdef0123456789abcdef-stray", "never touched, but by doctor --sweep"),
    ],
)
def test_what_is_never_touched_is_said_to_be_there(name: str, words: str, log_dir: Path, capsys) -> None:
    (log_dir / name).mkdir(exist_ok=True)
    for arguments in (["explain", name], ["topics", "--topic", name], ["clean", "--topic", name]):
        assert main([*arguments, "--log-dir", str(log_dir)]) == 2
        told = capsys.readouterr().err
        assert words in told
        assert "none of the log dirs" not in told
    assert main(["topics", "--topic", "__cluster_metadata", "--log-dir", str(log_dir)]) == 2
    assert "never touched" in capsys.readouterr().err


def test_diff_names_the_nearest_topic_of_either_place(demo: Path, capsys) -> None:
    assert main(["diff", str(demo), str(demo), "--topic", "ordres"]) == 2
    assert "either place; did you mean orders?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [("history", "clicks-7"), ("restore", "clicks-7"), ("export", "clicks-7", "--to", "jsonl", "-")]
)
def test_partition_that_nothing_knows_is_wrong_usage_with_the_nearest_name(command, demo: Path, capsys) -> None:
    assert main([*command, "--log-dir", str(demo)]) == 2
    told = capsys.readouterr().err
    assert told == "logcleaner: TOPIC-PARTITION = 'clicks-7': is in none of the log dirs; did you mean clicks-0?\n"


@pytest.mark.parametrize("command", [("topics",), ("clean", "--dry-run"), ("topics", "--json")])
def test_directory_that_only_has_the_name_of_a_partition_is_told(command, log_dir: Path, capsys) -> None:
    assert main([*command, "--log-dir", str(log_dir)]) == 0
    assert capsys.readouterr().err == ""
    for name in ("dbus-1", "polkit-1", "x-1", "y-1"):
        (log_dir / name).mkdir()
    (log_dir / "dbus-1/session.d").mkdir()
    main([*command, "--log-dir", str(log_dir)])
    told = capsys.readouterr().err
    assert f"{log_dir}: no segment in dbus-1, polkit-1, x-1 and 1 more: a broker would begin an empty log" in told


@pytest.mark.parametrize("command", ["history", "restore", "explain"])
@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("clicks", "did you mean clicks-0?"),
        ("Clics", "did you mean clicks-0?"),
        ("zzz", "such as orders-3; logcleaner topics lists what is there"),
    ],
)
def test_name_that_is_no_partition_is_wrong_usage_with_the_nearest_one(
    command: str, written: str, told: str, demo: Path, capsys
) -> None:
    assert main([command, written, "--log-dir", str(demo)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"logcleaner: TOPIC-PARTITION = '{written}': is no partition")
    assert line.endswith(told)


@pytest.mark.parametrize(
    ("command", "told"),
    [("history", "for several say --topic GLOB GLOB"), ("restore", "for several say --all --topic GLOB GLOB")],
)
def test_several_partitions_are_told_how_to_be_named(command: str, told: str, capsys) -> None:
    assert main([command, "clicks-0", "audit-0"]) == 2
    assert told in capsys.readouterr().err
    assert main([command, "clicks-0", "-nowhere"]) == 2
    assert told not in capsys.readouterr().err


@pytest.mark.parametrize("named", [("clicks-0",), ("--topic", "clicks"), ("--topic", "clicks-*")])
def test_history_and_restore_take_what_only_the_journal_names(named, log_dir: Path, capsys) -> None:
    assert main(["clean", "--log-dir", str(log_dir)]) == 0
    shutil.rmtree(log_dir / "clicks-0")
    capsys.readouterr()
    assert main(["history", "--log-dir", str(log_dir), "--json", *_in_front(named)]) == 0
    entries = json.loads(capsys.readouterr().out)["log_dirs"][0]["entries"]
    assert "clicks-0" in [entry.get("partition") for entry in entries]
    assert main(["restore", "--log-dir", str(log_dir), "--dry-run", *_in_front(named)]) == (1 if len(named) == 1 else 0)
    (log_dir / JOURNAL_FILE).unlink()
    assert main(["history", "--log-dir", str(log_dir), *_in_front(named)]) == 2


def _in_front(named: tuple[str, ...]) -> tuple[str, ...]:
    """An operand must not follow --log-dir: it would be taken for a directory."""
    return ("--json", *named) if named[0] != "--topic" else named


class TestPatternsOfTopics:
    @pytest.fixture
    def config(self, tmp_path: Path, log_dir: Path) -> Path:
        path = tmp_path / "logcleaner.toml"
        path.write_text(
            f'log.dirs = ["{log_dir}"]\n'
            '[topics."ordres"]\nmin.cleanable.dirty.ratio = 0.1\n[topics."zz*"]\nretention.ms = "7d"\n'
            '[topics."cl*"]\nretention.ms = "900d"\n[topics.audit]\nretention.ms = "900d"\n'
        )
        return path

    @pytest.mark.parametrize(
        "command", [("clean", "--dry-run"), ("topics",), ("free", "--target", "1MiB"), ("clean",), ("topics", "--json")]
    )
    def test_those_without_a_topic_are_one_warning_and_change_no_status(self, command, config: Path, capsys) -> None:
        assert main([*command, "--config", str(config)]) == 0
        (line,) = capsys.readouterr().err.splitlines()
        expected = f"logcleaner: {config}: these [topics] match no topic here: zz*, ordres (did you mean orders?)"
        assert line == expected

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            (("clean", "--dry-run"), "clicks would lose "),
            (("clean",), "clicks lost "),
            (("free", "--target", "1TiB", "--dry-run"), "clicks would lose "),
            (("free", "--target", "1TiB"), "clicks lost "),
        ],
    )
    def test_what_the_nearest_topic_loses_by_another_limit_is_told_behind_the_report(
        self, command, words: str, log_dir: Path, tmp_path: Path, capsys
    ) -> None:
        path = tmp_path / "logcleaner.toml"
        path.write_text(
            f'log.dirs = ["{log_dir}"]\n[topics."*"]\nretention.ms = "1h"\n[topics.click]\nretention.ms = "900d"\n'
        )
        assert main([*command, "--config", str(path)]) == ("free" in command)
        last = capsys.readouterr().err.splitlines()[-1]
        assert words in last
        assert last.endswith(f'by retention.ms=1h ({path} line 3): [topics."click"] does not match this topic')

    def test_topic_that_only_the_cluster_metadata_knows_is_a_match(self, config: Path, log_dir: Path, capsys) -> None:
        config.write_text(f'log.dirs = ["{log_dir}"]\n[topics.clicks]\nretention.ms = "900d"\n')
        shutil.rmtree(log_dir / "clicks-0")
        assert main(["topics", "--config", str(config)]) == 0
        assert capsys.readouterr().err == ""

    def test_commands_that_ask_no_policy_say_nothing(self, config: Path, capsys) -> None:
        assert main(["history", "--config", str(config)]) == 0
        assert capsys.readouterr().err == ""

    def test_daemon_tells_them_as_one_event(self, config: Path, capsys) -> None:
        assert main(["run", "--once", "--observe", "--log-format", "json", "--config", str(config)]) == 0
        events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        (told,) = [event for event in events if event["event"] == "topics_unmatched"]
        assert (told["level"], told["path"], told["patterns"]) == ("warning", str(config), ["zz*", "ordres"])


class TestLogDir:
    @pytest.mark.parametrize("command", [*READING, *CHANGING])
    def test_named_twice_is_one(self, command, log_dir: Path, tmp_path: Path, capsys) -> None:
        (tmp_path / "link").symlink_to(log_dir)
        named = [str(log_dir), f"{log_dir}/../data", str(tmp_path / "link")]
        status = main([*command, "--log-dir", *named, "--log-dir", str(log_dir)])
        assert status == (1 if command[0] == "free" else 0)
        told = capsys.readouterr()
        assert "held by" not in told.err
        assert "LOG DIR" not in told.out
        assert told.out.count(str(log_dir)) <= 1 or command[0] == "free"

    def test_named_twice_in_the_configuration_is_one(self, log_dir: Path, tmp_path: Path, capsys) -> None:
        config = tmp_path / "logcleaner.toml"
        config.write_text(f'log.dirs = ["{log_dir}", "{log_dir}/"]\n')
        assert main(["clean", "--config", str(config), "--json"]) == 0
        assert [one["path"] for one in json.loads(capsys.readouterr().out)["log_dirs"]] == [str(log_dir)]

    @pytest.mark.parametrize("command", [*READING[:2], *CHANGING[:2], ("run", "--once")])
    def test_partition_directory_names_its_parent(self, command, log_dir: Path, capsys) -> None:
        before = files_of(log_dir)
        assert main([*command, "--log-dir", str(log_dir / "orders-0")]) == 2
        expected = f"{log_dir}/orders-0: is a partition directory; use its parent, {log_dir}, with --topic orders-0"
        assert expected in capsys.readouterr().err
        assert files_of(log_dir) == before

    @pytest.mark.parametrize("command", [("history",), ("restore",), ("export", "orders-0", "--to", "jsonl", "-")])
    def test_partition_directory_names_its_parent_and_the_operand(self, command, log_dir: Path, capsys) -> None:
        assert main([*command, "--log-dir", str(log_dir / "orders-0")]) == 2
        expected = f"is a partition directory; use its parent, --log-dir {log_dir}, with orders-0"
        assert expected in capsys.readouterr().err

    @pytest.mark.parametrize("command", [*READING[:3], *CHANGING[:2], ("run", "--once")])
    @pytest.mark.parametrize("mode", [0o000, 0o600, 0o300])
    def test_unreadable_one_is_blamed_itself(self, command, mode: int, log_dir: Path) -> None:
        log_dir.chmod(mode)
        try:
            done = run_as_ordinary_user(*command, "--log-dir", log_dir)
        finally:
            log_dir.chmod(0o755)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert f"{log_dir}: belongs to uid" in line

    @pytest.mark.parametrize(
        ("shut", "command"),
        [
            ("clicks-0", ("explain", "clicks-0")),
            ("clicks-0", ("clean", "--dry-run")),
            ("__cluster_metadata-0", ("owners",)),
            ("__cluster_metadata-0", ("topics",)),
        ],
    )
    def test_what_only_its_owner_may_read_has_a_remedy(self, shut: str, command, log_dir: Path) -> None:
        (log_dir / shut).chmod(0)
        try:
            done = run_as_ordinary_user(*command, "--log-dir", log_dir)
        finally:
            (log_dir / shut).chmod(0o755)
        assert done.returncode == 1
        told = " ".join((done.stdout + done.stderr).split())
        assert "Permission denied; perhaps only its owner may: run as that user or as root" in told

    def test_log_dir_behind_an_unreadable_parent_is_blamed(self, log_dir: Path) -> None:
        log_dir.parent.chmod(0)
        try:
            done = run_as_ordinary_user("topics", "--log-dir", log_dir)
        finally:
            log_dir.parent.chmod(0o755)
        assert done.stderr.startswith(
            f"logcleaner: {log_dir}: {log_dir.parent} belongs to uid 0 gid 0, who let no other"
        )
        assert done.returncode == 1

    def test_unreadable_metadata_log_is_blamed_where_it_is_at_fault(self, log_dir: Path) -> None:
        (log_dir / "__cluster_metadata-0").chmod(0)
        try:
            done = run_as_ordinary_user("topics", "--log-dir", log_dir)
        finally:
            (log_dir / "__cluster_metadata-0").chmod(0o755)
        assert done.returncode == 1
        assert f"{log_dir}/__cluster_metadata-0: cannot be read" in done.stderr


def test_of_several_names_as_near_the_first_is_meant() -> None:
    assert nearest("clicks", ["clicks-2", "clicks-0", "clicks-1", "orders-0"]) == "clicks-0"
    assert nearest("clicks", ["trades-0"]) is None
    assert nearest("clicks", []) is None
