"""Every command that takes ``--tier`` says of a tiered log what it says of the same log on this machine."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.names import FileKind, segment_file_name
from storage.stores.errors import NotOnThisMachine
from tests.partition_dirs import NOW_MS
from tests.tiers.drawn import (
    TOPIC_ID,
    AivenForm,
    DrawnSegment,
    a_batch,
    segment_of,
    write_aiven,
    write_local,
)

LINEAGE = ((0, 0), (1, 6))
COMMANDS = [
    "export orders-0 - --to jsonl",
    "export orders-0 - --to jsonl --isolation-level read_committed --include-metadata",
    "dump orders-0 --print-data-log",
    "dump orders-0 --json",
    *(f"lookup orders-0 --offset {offset} --json" for offset in range(13)),
    *(f"lookup orders-0 --timestamp {NOW_MS + offset * 1000} --json" for offset in range(12)),
    "lookup orders-0 --timestamp max-timestamp",
    "topics --json",
]


def drawn() -> list[DrawnSegment]:
    batches = [a_batch(n, f"value {n}", epoch=0 if n < 6 else 1) for n in range(12)]
    return [
        segment_of(start, *batches[start : start + 3], lineage=[e for e in LINEAGE if e[1] < start + 3])
        for start in range(0, 12, 3)
    ]


def local_dir(log_dir: Path, segments: list[DrawnSegment]) -> Path:
    """A log dir with these segments, as a broker has them; epochs are those of the whole log."""
    directory = log_dir / "orders-0"
    directory.mkdir(parents=True)
    for segment in segments:
        for suffix, data in segment.files().items():
            if suffix == ".snapshot":
                (directory / segment_file_name(segment.end + 1, FileKind.SNAPSHOT)).write_bytes(data)
            elif suffix != ".leader_epoch_checkpoint":
                (directory / f"{segment.start:020d}{suffix}").write_bytes(data)
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n1 6\n")
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\norders 0 12\n")
    (log_dir / ".kafka_cleanshutdown").touch()
    return log_dir


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    return local_dir(tmp_path / "whole", drawn())


@pytest.fixture(params=["local", "aiven"])
def tiered(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The options that name a tier of the first three segments, and a log dir with the last two."""
    tier = write_local(tmp_path / "tier", drawn()[:3]) if request.param == "local" else tmp_path / "tier"
    if request.param == "aiven":
        write_aiven(tier, drawn()[:3], AivenForm(is_compressed=True))
    return f"--log-dir {local_dir(tmp_path / 'data', drawn()[2:])} --tier {tier}"


def said(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main([*command.split(), "--no-pager"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_command_says_the_same(command: str, whole: Path, tiered: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = said(f"{command} --log-dir {whole}", capsys)
    found = said(f"{command} {tiered}", capsys)
    assert found[0] == expected[0]
    if "--json" in command and not command.startswith("dump"):
        if found[1]:
            assert without_places(json.loads(without_names(found[1]))) == without_places(
                json.loads(without_names(expected[1]))
            )
    else:
        assert without_names(found[1]) == without_names(expected[1])
    assert found[1] or found[0] == ExitStatus.USAGE


def without_names(text: str) -> str:
    """A text without the directories that it names."""
    return re.sub(r'[^\s"]*/orders-0', "orders-0", text)


def without_places(value: Any) -> Any:
    """A document without paths, times of files and figures of a disk."""
    dropped = {
        *(
            "path",
            "log_dir",
            "log_dirs",
            "file_systems",
            "runway",
            "runways",
            "now",
            "next_expiry_ms",
            "seconds",
            "space",
        ),
        *("disk_bytes", "kinds", "free_bytes", "mtime_ms", "steps", "start", "on_disk", "apparent_bytes", "totals"),
    }
    if isinstance(value, dict):
        return {key: without_places(inner) for key, inner in value.items() if key not in dropped}
    return [without_places(inner) for inner in value] if isinstance(value, list) else value


def test_a_tier_without_a_log_dir_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_local(tmp_path / "tier", drawn())
    status, out = said(f"export orders-0 - --to jsonl --tier {tier}", capsys)
    assert (status, len(out.splitlines())) == (ExitStatus.DONE, 12)


def test_a_tier_without_its_key_says_what_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = drawn()
    write_aiven(tmp_path / "tier", [first], AivenForm(key=generate_private_key(65537, 2048)))
    write_aiven(tmp_path / "tier", others)
    status = main(f"export orders-0 - --to jsonl --tier {tmp_path / 'tier'}".split())
    out, err = capsys.readouterr()
    assert (status, len(out.splitlines())) == (ExitStatus.FAILED, 9)
    assert "left out" in err
    assert "--tier-key key-1=FILE" in err


@pytest.mark.parametrize("what", ["", "nothing"])
def test_what_is_no_tier_is_wrong_usage(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(f"lookup orders-0 --offset 0 --tier {tmp_path / what}".split())
    assert status == ExitStatus.USAGE
    assert "name the directory of kafka-tiered-storage" in capsys.readouterr().err


def test_the_operating_system_never_gets_a_path_of_a_view(tmp_path: Path) -> None:
    from storage.tiers.view import view_of

    with pytest.raises(NotOnThisMachine):
        shutil.rmtree(view_of(tmp_path))
