from __future__ import annotations

import argparse
import shutil
import subprocess

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import build_parser
from cleaner.cli.man import man_page
from cleaner.cli.parser import actions_of, commands_of

PAGE = man_page(build_parser())


def formatted() -> str:
    if not shutil.which("groff"):
        pytest.skip("NOT RUN: there is no groff here")
    command = ["groff", "-man", "-Tascii", "-P-cbou", "-ww"]
    done = subprocess.run(command, check=True, input=PAGE, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


def every_parser(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    return [parser, *(found for command in commands_of(parser).values() for found in every_parser(command))]


def test_every_option_of_every_command_is_there() -> None:
    page = PAGE.replace(r"\-", "-")
    for parser in every_parser(build_parser()):
        for action in actions_of(parser):
            assert all(rf"\fB{option}\fR" in page for option in action.option_strings), action
    for name in ("clean", "free", "systemd install"):
        assert f"\n.SS logcleaner {name}\n" in page


@pytest.mark.parametrize(
    "line",
    [
        r"\fB-n\fR, \fB--dry-run\fR",
        r"\fB--log-dir\fR \fIDIR\fR",
        r"\fB--only\fR \fIretention|compaction\fR",
        r"\fITOPIC-PARTITION\fR",
    ],
)
def test_an_option_stands_with_the_argument_that_it_takes(line: str) -> None:
    assert f"\n.TP\n{line}\n" in PAGE.replace(r"\-", "-")


def test_every_exit_status_is_there() -> None:
    assert all(f"\n\\fB{status.value}\\fR\n" in PAGE for status in ExitStatus)


def test_roff_finds_no_fault_and_shows_the_text_as_it_is() -> None:
    shown = " ".join(formatted().split())
    assert "logcleaner - retention and log compaction for Apache Kafka log directories" in shown
    assert "-n, --dry-run change nothing, and print what a run would do" in shown
    assert ".logcleaner-journal in each log dir" in shown
    assert "15% of it" in shown


def test_text_that_roff_would_take_for_its_own_is_escaped() -> None:
    parser = argparse.ArgumentParser(description="'quoted", epilog=".hidden \\ x", add_help=False)
    page = man_page(parser)
    assert "\n\\&'quoted.\n" in page
    assert "\n\\&.hidden \\e x.\n" in page
