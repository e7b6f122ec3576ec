"""``clean --tier --output``: local and remote segments together become a cleaned plain log dir; the tier stays."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.copy.manifest import damaged_files, read_manifest
from tests.tiers.drawn import AivenForm, DrawnSegment, a_batch, segment_of, write_aiven, write_local
from tests.tiers.test_commands import LINEAGE, local_dir

FIRST_MS = int(time.time() * 1000) - 3_600_000
RETENTION = ("--set", "cleanup.policy=delete", "--set", "retention.bytes=500", "--set", "local.retention.bytes=1")
WRITERS: dict[str, Callable[[Path, list[DrawnSegment]], Path]] = {
    "local": write_local,
    "aiven": lambda path, segments: write_aiven(path, segments, AivenForm(is_compressed=True)),
}


def drawn(keys: int = 12) -> list[DrawnSegment]:
    """Four segments of three batches, of an hour ago, in two leader epochs."""
    batches = [a_batch(n, f"value {n}", epoch=0 if n < 6 else 1, timestamp_ms=FIRST_MS + n * 1000) for n in range(keys)]
    return [
        segment_of(
            start,
            *batches[start : start + 3],
            lineage=[entry for entry in LINEAGE if entry[1] < start + 3],
            mtime_ms=FIRST_MS,
        )
        for start in range(0, keys, 3)
    ]


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Callable[[Path, list[DrawnSegment]], Path]:
    return WRITERS[request.param]


def logs(log_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in log_dir.rglob("*.log")}


def checkpoints(log_dir: Path) -> dict[str, bytes]:
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in log_dir.rglob("*checkpoint")}


def ran(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, object]]:
    capsys.readouterr()
    status = main([*map(str, words), "--json"])
    return status, json.loads(capsys.readouterr().out or "{}")


@pytest.mark.parametrize("has_local", [True, False])
@pytest.mark.parametrize("limit", ["retention.bytes=240", "retention.ms=3595s", "retention.ms=1"])
def test_the_copy_is_that_of_the_restored_log_dir(
    write: Callable[[Path, list[DrawnSegment]], Path],
    limit: str,
    has_local: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tier = write(tmp_path / "tier", drawn()[:3])
    local = ["--log-dir", local_dir(tmp_path / "data", drawn()[2:])] if has_local else []
    before = {path: path.read_bytes() for path in tier.rglob("*") if path.is_file()}
    how = ["--set", "cleanup.policy=delete", "--set", limit, "--now", FIRST_MS + 3_600_000]
    restored, expected, found = tmp_path / "restored", tmp_path / "expected", tmp_path / "found"
    assert main(["restore-tier", str(tier), *map(str, local), "--output", str(restored)]) == ExitStatus.DONE
    plain = ran(capsys, "clean", "--log-dir", restored, "--output", expected, *how)
    planned = ran(capsys, "clean", "--tier", tier, *local, *how, "--dry-run")
    copied = ran(capsys, "clean", "--tier", tier, *local, *how, "--output", found)
    assert plain[0] == copied[0] == planned[0] == ExitStatus.DONE
    assert fates(plain[1]) == fates(copied[1]) == fates(planned[1])
    assert "delete" in {action for _, action, _ in fates(copied[1])}
    assert logs(found) == logs(expected)
    assert checkpoints(found) == checkpoints(expected)
    manifest = read_manifest(found)
    assert manifest
    assert list(damaged_files(found, manifest.files)) == []
    assert main(["verify", str(found)]) == ExitStatus.DONE
    assert {path: path.read_bytes() for path in tier.rglob("*") if path.is_file()} == before
    (partition,) = copied[1]["partitions"]  # type: ignore[misc]
    assert [s["base_offset"] for s in partition["segments"] if s.get("in_tier")] == ([0, 3] if has_local else [0, 3, 6])


def fates(document: dict[str, object]) -> list[tuple[int, str, str]]:
    (partition,) = document["partitions"]  # type: ignore[misc]
    return [(s["base_offset"], s["action"], s["reason"]["code"]) for s in partition["segments"]]


def test_a_gap_fails_its_partition_and_nothing_of_it_is_cleaned(
    write: Callable[[Path, list[DrawnSegment]], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _, third, *others = drawn()
    tier = write(tmp_path / "tier", [first, third])
    log_dir, output = local_dir(tmp_path / "data", others), tmp_path / "out"
    for more in (["--dry-run"], ["--output", output]):
        status, document = ran(capsys, "clean", "--tier", tier, "--log-dir", log_dir, *RETENTION, *more)
        (partition,) = document["partitions"]  # type: ignore[misc]
        assert status == ExitStatus.FAILED
        assert "the offsets 3 to 5 are in no copy" in partition["error"]
    assert sorted(logs(output)) == [f"orders-0/{base:020d}.log" for base in (0, 6, 9)]
    assert "3 to 5" in (output / "logcleaner-manifest.json").read_text()


def test_a_segment_that_was_cut_short_counts_as_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_aiven(tmp_path / "tier", drawn())
    path = sorted(tier.rglob("*.log"))[1]
    path.write_bytes(path.read_bytes()[:-80])
    status, document = ran(capsys, "clean", "--tier", tier, *RETENTION, "--dry-run")
    assert status == ExitStatus.FAILED
    assert "the offsets 3 to 5" in document["partitions"][0]["error"]  # type: ignore[index]
    assert path.name in document["errors"][0]  # type: ignore[index]


def test_segments_without_their_key_fail_their_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_aiven(tmp_path / "tier", drawn()[:1], AivenForm(key=generate_private_key(65537, 2048)))
    write_aiven(tier, drawn()[1:])
    status, document = ran(capsys, "clean", "--tier", tier, *RETENTION, "--output", tmp_path / "out")
    assert status == ExitStatus.FAILED
    assert "the offsets 0 to 2" in document["partitions"][0]["error"]  # type: ignore[index]
    assert "--tier-key key-1=FILE" in document["errors"][0]  # type: ignore[index]


def test_nothing_goes_by_a_limit_that_nobody_stated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_local(tmp_path / "tier", drawn())
    command = ["clean", "--tier", tier, "--output"]
    status, document = ran(capsys, *command, tmp_path / "unknown")
    assert (status, {code for _, _, code in fates(document)}) == (ExitStatus.REFUSED, {"CONFIG_UNKNOWN"})
    status, document = ran(capsys, *command, tmp_path / "unlimited", "--set", "cleanup.policy=delete")
    assert (status, {action for _, action, _ in fates(document)}) == (ExitStatus.DONE, {"keep"})
    assert len(logs(tmp_path / "unknown")) == len(logs(tmp_path / "unlimited")) == 4


@pytest.mark.parametrize("table", ["defaults", 'topics."ord*"'])
def test_a_tier_is_compacted_only_by_a_policy_that_speaks_of_topics(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed = [a_batch(n, f"value {n}", timestamp_ms=FIRST_MS) for n in (0, 1, 2)]
    tier = write_local(tmp_path / "tier", [segment_of(n, batch, mtime_ms=FIRST_MS) for n, batch in enumerate(keyed)])
    config = tmp_path / "cleaner.toml"
    config.write_text(f'[{table}]\ncleanup.policy = "compact"\n')
    command = ["clean", "--tier", tier, "--config", config, "--output", tmp_path / "out"]
    status, document = ran(capsys, *command, "--topic", "orders")
    actions = {action for _, action, _ in fates(document)}
    if table == "defaults":
        assert (status, actions) == (ExitStatus.REFUSED, {"keep"})
        assert "a tiered topic has no compaction" in json.dumps(document)
    else:
        assert (status, actions) == (ExitStatus.DONE, {"compact", "keep"})


def test_a_tier_is_only_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_local(tmp_path / "tier", drawn())
    assert main(["clean", "--tier", str(tier), *RETENTION]) == ExitStatus.USAGE
    assert "needs --output DIR, or --dry-run: a tier is only read" in capsys.readouterr().err
    assert main(["clean", "--tier", str(tier), "--output", str(tier / "x"), *RETENTION]) == ExitStatus.USAGE
    assert f"lies in the tier {tier}; name a directory outside it" in capsys.readouterr().err
    assert not (tier / "x").exists()


def test_a_log_dir_that_a_broker_uses_is_not_copied(tmp_path: Path) -> None:
    from tests.storage.test_lock import Broker

    tier = write_local(tmp_path / "tier", drawn()[:3])
    log_dir = local_dir(tmp_path / "data", drawn()[2:])
    (log_dir / ".lock").touch()
    command = ["clean", "--tier", str(tier), "--log-dir", str(log_dir), *RETENTION, "--output", str(tmp_path / "out")]
    with Broker(log_dir) as broker:
        assert broker.answer == "locked"
        assert main(command) == ExitStatus.LOCKED
    assert main(command) == ExitStatus.DONE


def test_dry_run_frees_nothing_and_names_the_output_that_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = write_local(tmp_path / "tier", drawn())
    assert main(["clean", "--tier", str(tier), *RETENTION, "--dry-run"]) == ExitStatus.DONE
    said = capsys.readouterr().out
    assert "Would leave out" in said
    assert "Would free" not in said
    assert "and with --output DIR." in said
