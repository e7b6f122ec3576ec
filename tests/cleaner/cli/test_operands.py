"""Operands: log dirs and partitions by their path, words that are neither, and options that are given twice."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner.cli.main import build_parser, main
from cleaner.cli.parser import actions_of, commands_of
from tests.partition_dirs import PartitionDir, committed, keyed


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = PartitionDir(tmp_path / "data")
    made.segment(0, keyed(0, "a=1", "b=2")).segment(2, keyed(2, "c=3"))
    committed(tmp_path / "data", made)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    found = [("", build_parser())]
    while found:
        name, parser = found.pop()
        yield name, parser
        found += [(f"{name} {command}".strip(), below) for command, below in commands_of(parser).items()]


def actions() -> Iterator[tuple[str, argparse.Action]]:
    for name, parser in parsers():
        for action in actions_of(parser):
            yield name, action


def test_every_help_fits_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    wide = [
        f"{name}: {line}" for name, parser in parsers() for line in parser.format_help().splitlines() if len(line) > 80
    ]
    assert wide == []


def test_help_shows_each_command_in_one_group_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = build_parser()
    commands = commands_of(parser)
    assert len(commands) > 20
    lines = parser.format_help().splitlines()
    groups = ["rescue and clean:", "look:", "damage and starts:", "take back:", "data in and out:", "service:"]
    assert [line for line in lines if line in groups] == groups
    for name, command in commands.items():
        (line,) = (line for line in lines if line.split()[:1] == [name])
        assert line.endswith(command.description)


def test_every_command_on_log_dirs_takes_one_as_an_operand_or_has_operands_of_its_own() -> None:
    lacking = [
        name
        for name, parser in parsers()
        if any("--log-dir" in action.option_strings for action in actions_of(parser))
        and all(action.option_strings for action in actions_of(parser))
    ]
    assert lacking == []


def without_measures(text: str) -> list[str]:
    """Return the lines without those about speed and about other files of the file system, which change between two
    runs.
    """
    changing = ("free", "/s", "unlinked", "elsewhere")
    return [line for line in text.splitlines() if not any(word in line for word in changing)]


@pytest.mark.parametrize(
    "command",
    [
        "clean -n",
        "free -n --target 1MiB",
        "topics",
        "doctor",
        "preflight",
        "config show",
        "verify",
        "history",
        "restore",
    ],
)
def test_a_log_dir_is_an_operand(data: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    named, as_operand = main([*command.split(), "data"]), without_measures(capsys.readouterr().out)
    assert named == main([*command.split(), "--log-dir", "data"])
    assert without_measures(capsys.readouterr().out) == as_operand
    assert named != 2


@pytest.mark.parametrize("command", ["explain {}", "lookup {} --offset 1", "delete-records {} --before-offset 1 -n"])
def test_a_partition_is_named_by_its_path(data: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, by_path = main(command.format("data/orders-0").split()), capsys.readouterr().out
    assert main([*command.format("orders-0").split(), "--log-dir", str(data)]) == status != 2
    assert capsys.readouterr().out.splitlines()[-1:] == by_path.splitlines()[-1:]


def test_a_log_dir_with_the_name_of_a_partition_is_a_log_dir(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.rename("kafka-1")
    assert main(["history", "./kafka-1"]) == 0
    assert main(["lookup", "./kafka-1", "--offset", "1"]) == 2
    assert "say for example orders-3 --log-dir ./kafka-1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("lookup data --offset 3", "data is a directory, and no partition: say for example orders-3 --log-dir data"),
        ("lookup orders-0 data --offset 3", "unrecognized arguments: data; say --log-dir data"),
        ("topics orders", "no such directory: orders; a topic is named by --topic orders"),
        ("clean -n dryrun data", "no such directory: dryrun; did you mean --dry-run?"),
        ("topics --topic orders data", "no log dir is named; say --log-dir data"),
        ("doctor --sweep x data", "no log dir is named; say --log-dir data"),
        ("owners data", "no log dir is named; say --log-dir data"),
        ("export orders-0 x --log-dir data", "the following arguments are required: --to; see logcleaner export"),
        ("lookup orders-0 --offset 3 --offset 4", "argument --offset: takes one value, and was given twice"),
        ("clean -n --delete-delay 7d --delete-delay 0 data", "argument --delete-delay: takes one value"),
        ("clean -n --config a.toml --config b.toml data", "argument --config: takes one value"),
    ],
)
def test_a_word_that_is_not_taken_is_told(
    data: Path, command: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert data.is_dir()
    assert main(command.split()) == 2
    assert told in capsys.readouterr().err


def test_an_operand_that_may_be_mounted_later_is_not_there_yet(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", str(data / "nowhere")]) == 6
    assert main(["lookup", str(data / "nowhere" / "orders-3"), "--offset", "4"]) == 6
    assert f"{data / 'nowhere'}: does not exist" in capsys.readouterr().err


def test_every_option_with_several_values_adds_up() -> None:
    several = [(name, action) for name, action in actions() if action.option_strings and action.default == []]
    assert {option for _, action in several for option in action.option_strings} >= {
        *("--log-dir", "--topic", "--set", "--sweep", "--what-if", "--keys", "--redact", "--repair"),
    }
    replacing = [
        f"{name} {action.option_strings[-1]}"
        for name, action in actions()
        if action.option_strings and action.nargs in ("+", "*") and not isinstance(action, argparse._ExtendAction)
    ]
    assert replacing == []
    assert [f"{name} {a.option_strings[-1]}" for name, a in several if isinstance(a, argparse._StoreAction)] == []


def test_sweeps_add_up(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["orders-0.0000000000000000000000000000000a-delete", "orders-1.0000000000000000000000000000000b-delete"]
    for name in names:
        (data / name).mkdir()
    words = [word for name in names for word in ("--sweep", name)]
    main(["doctor", "data", *words, "-n", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert all(name in json.dumps(document) for name in names)


def test_files_of_keys_add_up(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first one was ignored: its keys passed for erased."""
    Path("one").write_text("a\n")
    Path("two").write_text("nobody\n")
    assert main(["prove-erased", "--keys", "one", "--keys", "two", "--log-dir", str(data)]) == 10
    capsys.readouterr()
