"""``clean --dry-run --what-if``, what ``--set`` says, and ``--now +7d``, as a user meets them on the demo."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cleaner.cli.main import main

DAY_MS = 86_400_000


def clean(log_dir: Path, *options: str) -> int:
    return main(["clean", "--log-dir", str(log_dir), *options])


def test_it_answers_in_text(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clean(demo, "-n", "--what-if", "retention.ms=1d,3d", "--what-if", "retention.bytes=1MiB") == 0
    told = capsys.readouterr()
    assert told.err == ""
    assert "What if retention.ms were 1d or 3d?" in told.out
    assert "What if retention.bytes were 1MiB?" in told.out
    assert max(map(len, told.out.splitlines())) <= 80


def test_its_json_is_that_of_a_dry_run_with_the_answers_beside_it(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clean(demo, "-n", "--json", "--what-if", "retention.ms=1d", "--topic", "clicks", "audit") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "logcleaner.plan/1"
    assert [partition["topic"] for partition in document["partitions"]] == ["audit", "clicks"]
    (what_if,) = document["what_if"]
    in_force, asked = what_if["answers"]
    assert in_force["totals"]["freed_bytes"] == document["totals"]["reclaimed_bytes"]
    copied = Path(shutil.copytree(demo, tmp_path / "copy"))
    assert clean(copied, "--json", "--set", "retention.ms=1d", "--topic", "clicks", "audit") == 0
    done = json.loads(capsys.readouterr().out)
    assert asked["totals"]["freed_bytes"] == done["totals"]["reclaimed_bytes"]
    assert asked["totals"]["kept_bytes"] == done["totals"]["bytes_after"]
    assert asked["value"] == DAY_MS


def test_nothing_is_changed(demo: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(demo, tmp_path / "copy"))
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("*")}
    assert clean(copied, "-n", "--exact", "--what-if", "retention.ms=1d", "--what-if", "delete.retention.ms=0") == 0
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("*")} == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--what-if", "retention.ms=1d"), "--what-if: needs --dry-run"),
        (("-n", "--what-if", "segment.ms=1d"), "--what-if: segment.ms: says how large or old a segment becomes"),
        (("-n", "--what-if", "delete.retention.ms=1d"), "--what-if: delete.retention.ms: only the records tell"),
        (("-n", "--what-if", "retention.ms=1x"), "--what-if: retention.ms = '1x': must be a whole number"),
        (
            ("-n", "--set", "max.compaction.lag.ms=1h", "--what-if", "min.compaction.lag.ms=1d"),
            "--what-if: min.compaction.lag.ms = 86400000: must not exceed max.compaction.lag.ms = 1h (--set)",
        ),
    ],
)
def test_what_has_no_answer_is_refused_in_one_line(
    options: tuple[str, ...], told: str, demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert clean(demo, *options) == 2
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if not line.startswith("logcleaner: --set")]
    assert len(lines) == 1
    assert told in lines[0]
    assert said.out == ""


@pytest.mark.parametrize(
    "command", [("clean",), ("clean", "-n"), ("clean", "-n", "--json"), ("free", "--target", "99%")]
)
def test_set_says_whom_it_hits(
    command: tuple[str, ...], demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = Path(shutil.copytree(demo, tmp_path / "copy"))
    main([*command, "--log-dir", str(copied), "--set", "retention.ms=30d", "--set", "clock.jump.max=9d"])
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("logcleaner: --set")]
    assert line == (
        "logcleaner: --set retention.ms=30d: 2 topics, no limit before (audit, empty); 2 topics, 3d before "
        "(clicks, future); 1 topic, 2d before (sessions); without effect: 1 topic without delete in cleanup.policy"
    )


def test_set_speaks_of_the_topics_of_the_run(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clean(demo, "-n", "--set", "retention.ms=3d", "--topic", "cl*", "sessions-0") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "logcleaner: --set retention.ms=3d: 1 topic, 2d before (sessions); the same before: 1 topic"


def test_a_later_now_says_when_and_of_what(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert clean(demo, "-n", "--now", "+7d") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("DRY RUN - nothing is changed; this is what a run would do at 20")
    assert ", in 7d, to what is there today " in text
    assert text.endswith(
        "DRY RUN - nothing was changed. This plan is for a later time: a run without --now does what is due now."
    )


def test_a_dry_run_now_or_for_the_past_says_how_to_do_it(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for now in ((), ("--now", "-1h"), ("--now", "+20s")):
        assert clean(demo, "-n", *now) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert text.startswith("DRY RUN - nothing is changed; this is what a run would do /")
        assert text.endswith("To do it, run the same command without --dry-run.")


@pytest.mark.parametrize("command", [("clean", "-n"), ("topics",), ("free", "-n", "--target", "99%")])
def test_a_look_says_how_long_the_disk_lasts(
    command: tuple[str, ...], demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*command, "--log-dir", str(demo)])
    assert "\nRunway         never full by the growth of 4 of 8 partitions, at " in capsys.readouterr().out
    main([*command, "--log-dir", str(demo), "--json"])
    (runway,) = json.loads(capsys.readouterr().out)["runway"]
    assert (runway["log_dirs"], runway["fills"], runway["days"]) == ([str(demo)], None, None)
    assert (runway["partitions"], runway["partitions_left_out"]) == (4, 4)
    assert runway["written_bytes_per_day"] > 1 << 20


def test_a_run_says_no_runway(demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copied = Path(shutil.copytree(demo, tmp_path / "copy"))
    assert clean(copied) == 0
    assert "Runway" not in capsys.readouterr().out
    assert clean(copied, "--json") == 0
    assert "runway" not in json.loads(capsys.readouterr().out)
