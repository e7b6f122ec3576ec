"""``restore-tier``: a tier and what survived become a plain log dir, with every record that a consumer had read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from cleaner.engine.copy.manifest import damaged_files, read_manifest
from cleaner.engine.restore_tier import RestorePlan, TierRestore, numbered
from storage.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.metadata.assignments import read_assignments
from storage.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_CHECKPOINT,
)
from storage.records import Batch, Record, encode_batch
from tests.batches import iter_batches
from tests.interop.clients import shown
from tests.interop.verdicts import Record as ReadRecord
from tests.tier_samples import SAMPLES, TierSample, TierSamples
from tests.tiers.drawn import AivenForm, DrawnSegment, a_batch, segment_of, write_aiven, write_local

PREFIX = "some/prefix-"
"""Of the samples of Aiven's plugin."""


def place_of(name: str, sample: TierSample) -> str:
    return str(sample.tier / PREFIX if name.startswith("aiven") else sample.tier)


def three_segments() -> list[DrawnSegment]:
    return [segment_of(at, a_batch(at, "value", "value")) for at in (0, 2, 4)]


def key_of(tiers: TierSamples) -> list[str]:
    return ["--tier-key", f"key1={tiers.private_key}"]


def records_of(partition: Path) -> Iterator[ReadRecord]:
    for log in sorted(partition.glob("*.log")):
        for batch in iter_batches(log.read_bytes(), log):
            assert isinstance(batch, Batch)
            if not batch.header.is_control:
                yield from map(shown, batch.records())


@pytest.mark.parametrize("name", SAMPLES)
def test_restored_log_dir_has_every_record_that_was_read_once_and_is_whole(
    tiers: TierSamples, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, restored = tiers[name], tmp_path / "restored"
    command = ["restore-tier", place_of(name, sample), "--log-dir", str(sample.log_dir), *key_of(tiers)]
    assert main([*command, "--output", str(restored), "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["finished"]
    assert told["damaged"] == []
    for (partition, isolation), read in sample.read().items():
        if isolation == "read_uncommitted":
            assert list(records_of(restored / partition)) == read
    manifest = read_manifest(restored)
    assert manifest
    assert list(damaged_files(restored, manifest.files)) == []
    for file in (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT):
        path = restored / file
        offsets = {str(key): value for key, value in parse_offset_checkpoint(path.read_bytes(), path).items()}
        for one in told["partitions"]:
            bounds = (one["start"], one["start"]) if file == LOG_START_OFFSET_CHECKPOINT else (one["start"], one["end"])
            assert bounds[0] <= offsets[f"{one['topic']}-{one['partition']}"] <= bounds[1]


def test_what_is_missing_is_told_beforehand_and_nothing_is_written(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, tier = tiers["local"], tmp_path / "tier"
    shutil.copytree(sample.tier, tier)
    segments = sorted(tier.glob("kafka-tiered-storage/remote-only-0-*/*.log"))
    lost, behind = segments[2], segments[3]
    lost.unlink()
    command = ["restore-tier", str(tier), "--log-dir", str(sample.log_dir), "--output", str(tmp_path / "restored")]
    assert main([*command, "-n", "--json"]) == ExitStatus.FAILED
    told = json.loads(capsys.readouterr().out)
    missing = {one["topic"]: one["missing"] for one in told["partitions"]}
    assert missing.pop("remote-only") == [{"start": int(lost.name[:20]), "end": int(behind.name[:20])}]
    assert set(map(str, missing.values())) == {"[]"}
    assert any(lost.stem[21:] in problem for problem in told["left_out"])
    assert not list(tmp_path.glob("restored*"))
    assert main([*command, "--topic", "codecs"]) == ExitStatus.DONE
    assert sorted(path.name for path in (tmp_path / "restored").glob("*-0")) == ["__cluster_metadata-0", "codecs-0"]


def test_encrypted_segments_without_their_key_are_named_and_left_out(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tiers["aiven-encrypted"]
    command = ["restore-tier", place_of("aiven-encrypted", sample), "--log-dir", str(sample.log_dir), "-n"]
    assert main([*command, "--output", str(tmp_path / "restored")]) == ExitStatus.FAILED
    said = capsys.readouterr()
    assert "--tier-key key1=FILE" in said.err
    assert "codecs-0" in said.out


def test_index_that_the_tier_has_wrong_is_derived_anew(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, tier, restored = tiers["local"], tmp_path / "tier", tmp_path / "restored"
    shutil.copytree(sample.tier, tier)
    index = sorted(tier.glob("kafka-tiered-storage/codecs-0-*/*.timeindex"))[1]
    index.write_bytes(b"\x7f" * index.stat().st_size)
    snapshot = sorted(tier.glob("kafka-tiered-storage/transactions-0-*/*.snapshot"))[1]
    snapshot.write_bytes(b"\x00" * snapshot.stat().st_size)
    command = ["restore-tier", str(tier), "--log-dir", str(sample.log_dir), "--output", str(restored), "--json"]
    assert main(command) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["remade"] == ["codecs-0", "transactions-0"]
    manifest = read_manifest(restored)
    assert manifest
    assert list(damaged_files(restored, manifest.files)) == []
    assert main(["verify", str(restored)]) == ExitStatus.DONE


def test_damaged_batch_of_the_tier_leaves_no_log_dir_and_the_next_run_goes_on(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, tier, restored = tiers["local"], tmp_path / "tier", tmp_path / "restored"
    shutil.copytree(sample.tier, tier)
    log = sorted(tier.glob("kafka-tiered-storage/codecs-0-*/*.log"))[1]
    whole = log.read_bytes()
    log.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    command = ["restore-tier", str(tier), "--log-dir", str(sample.log_dir), "--output", str(restored), "--json"]
    assert main(command) == ExitStatus.DAMAGED
    told = json.loads(capsys.readouterr().out)
    assert not restored.exists()
    assert any("codecs-0" in one["path"] for one in told["damaged"])
    log.write_bytes(whole)
    assert main(command) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out)["resumed_bytes"] > 0
    assert list(records_of(restored / "codecs-0")) == sample.read()["codecs-0", "read_uncommitted"]


def test_finished_copy_as_log_dir_hides_no_segment_of_the_tier_and_what_it_lost_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier, copy, restored = tmp_path / "tier", tmp_path / "copy", tmp_path / "restored"
    write_local(tier, [segment_of(2, a_batch(2, "c", "d"))])
    assert main(["restore-tier", str(tier), "--output", str(copy)]) == ExitStatus.DONE
    write_local(tier, [segment_of(0, a_batch(0, "a", "b")), segment_of(4, a_batch(4, "e", "f"))])
    (copy / LOG_START_OFFSET_CHECKPOINT).unlink()
    command = ["restore-tier", str(tier), "--log-dir", str(copy), "--json", "--output"]
    assert main([*command, str(restored)]) == ExitStatus.DONE
    assert [record.offset for record in records_of(restored / "orders-0")] == list(range(6))
    (copy / "orders-0" / f"{2:020d}.log").unlink()
    capsys.readouterr()
    assert main([*command, str(tmp_path / "again"), "-n"]) == ExitStatus.FAILED
    assert f"{2:020d}.log" in json.loads(capsys.readouterr().out)["left_out"][0]


@pytest.mark.parametrize("is_dry", [True, False])
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_dry: bool
) -> None:
    sample, full = tiers["local"], tmp_path / "full"
    (full / "x").mkdir(parents=True)
    command = ["restore-tier", str(sample.tier), "--log-dir", str(sample.log_dir), *(["-n"] if is_dry else [])]
    restored = str(tmp_path / "restored")
    for options, said in (
        (["--output", restored, "--topic", "codec"], "'codec': matches no topic"),
        (["--output", str(sample.tier / "x")], "lies in the tier"),
        (["--output", str(sample.log_dir / "x")], "lies in the log dir"),
        (["--output", str(full)], "is not empty"),
        (["--output", str(tmp_path / "no" / "x")], "does not exist"),
    ):
        assert main([*command, *options]) == ExitStatus.USAGE
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    assert not (sample.tier / "x").exists()


def test_topics_that_were_created_anew_keep_their_ids_and_get_the_epoch_of_the_controller_unless_a_broker_runs(
    tiers: TierSamples, tmp_path: Path
) -> None:
    sample, new, restored = tiers["divided"], tmp_path / "new", tmp_path / "restored"
    shutil.copytree(sample.log_dir, new)
    command = ["restore-tier", str(sample.tier), "--topic-ids-from", str(new), "--output", str(restored)]
    with LogDir(new).lock(FileSystem()):
        assert main(command) == ExitStatus.LOCKED
    assert not restored.exists()
    assert main(command) == ExitStatus.DONE
    partition = restored / "divided-0"
    assigned = read_assignments(new / "__cluster_metadata-0")
    topic_id = assigned.topic_ids["divided"]
    epoch = assigned.partitions[topic_id, 0].leader_epoch
    path = partition / LEADER_EPOCH_CHECKPOINT
    assert [tuple(entry) for entry in parse_leader_epochs(path.read_bytes(), path)] == [(epoch, 0)]
    batches = [batch for log in partition.glob("*.log") for batch in iter_batches(log.read_bytes(), log)]
    assert {batch.header.partition_leader_epoch for batch in batches if isinstance(batch, Batch)} == {epoch}
    assert topic_id in (partition / PARTITION_METADATA_FILE).read_text()
    manifest = read_manifest(restored)
    assert manifest
    assert list(damaged_files(restored, manifest.files)) == []
    assert list(records_of(partition)) == sample.read()["divided-0", "read_uncommitted"]


def test_log_is_hashed_once_while_its_bytes_pass(
    tiers: TierSamples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(FileSystem, "sha256_of", lambda _, path: read.append(path) or "0" * 64)
    sample, restored = tiers["local"], tmp_path / "restored"
    command = ["restore-tier", str(sample.tier), "--log-dir", str(sample.log_dir), "--output", str(restored)]
    assert main(command) == ExitStatus.DONE
    assert read
    assert [path for path in read if path.suffix == ".log"] == []


def test_topic_that_was_created_anew_and_has_records_is_refused(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, new, restored = tiers["divided"], tmp_path / "new", tmp_path / "restored"
    shutil.copytree(sample.log_dir, new)
    (log,) = (new / "divided-0").glob("*.log")
    log.write_bytes(encode_batch([Record(int(log.stem) + n, 1, b"k", b"of its own") for n in range(3)]))
    command = ["restore-tier", str(sample.tier), "--topic-ids-from", str(new), "--output", str(restored)]
    for more in ([], ["-n"]):
        assert main([*command, *more]) == ExitStatus.USAGE
        assert f"{new / 'divided-0'}: has 3 records already" in capsys.readouterr().err
    assert not list(tmp_path.glob("restored*"))


def test_encrypted_segments_of_a_partition_are_one_line(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = place_of("aiven-encrypted", tiers["aiven-encrypted"])
    for command in (["restore-tier", tier, "--output", str(tmp_path / "out"), "-n"], ["verify", "--tier", tier]):
        assert main(command) == ExitStatus.FAILED
        told = [line.partition(": is encrypted")[0] for line in capsys.readouterr().err.splitlines()]
        names = [line.removesuffix(": left out").rpartition(" ")[2] for line in told if line.endswith(("-0", "out"))]
        assert [name for name in names if name == "codecs-0"] == ["codecs-0"]


@pytest.mark.parametrize("write", [write_aiven, write_local])
@pytest.mark.parametrize("pattern", ["*{}.log", "*{}*"])
def test_segment_that_goes_behind_the_plan_is_not_left_out_without_a_word(
    write: Callable[[Path, list[DrawnSegment]], Path],
    pattern: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    segments, restored, plan = three_segments(), tmp_path / "restored", TierRestore.plan
    tier = write(tmp_path / "tier", segments)

    def planned(restore: TierRestore) -> RestorePlan:
        found = plan(restore)
        for path in tier.rglob(pattern.format(segments[1].segment_id)):
            path.unlink()
        return found

    monkeypatch.setattr(TierRestore, "plan", planned)
    command = ["restore-tier", str(tier), "--output", str(restored)]
    assert main(command) == ExitStatus.FAILED
    assert "run again" in capsys.readouterr().err
    assert not restored.exists()
    assert main(command) == ExitStatus.FAILED
    assert "MISSING: offsets 2 to 3" in capsys.readouterr().out
    assert [record.offset for record in records_of(restored / "orders-0")] == [0, 1, 4, 5]


@pytest.mark.parametrize("is_compressed", [False, True])
def test_log_of_a_tier_that_cannot_be_decoded_is_damage_and_the_others_come_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_compressed: bool
) -> None:
    segments, restored = three_segments(), tmp_path / "restored"
    tier = write_aiven(tmp_path / "tier", segments, AivenForm(is_compressed=is_compressed))
    (log,) = tier.rglob(f"*{segments[1].segment_id}.log")
    log.write_bytes(log.read_bytes()[:20])
    command = ["restore-tier", str(tier), "--output", str(restored)]
    assert main(command) == ExitStatus.DAMAGED
    assert "--with-damage" in capsys.readouterr().err
    assert not restored.exists()
    assert main([*command, "--with-damage"]) == ExitStatus.DAMAGED
    said = capsys.readouterr()
    assert f"orders-0 2-{segments[1].segment_id}: left out: " in said.err
    assert "MISSING: offsets 2 to 3" in said.out
    assert [record.offset for record in records_of(restored / "orders-0")] == [0, 1, 4, 5]


def test_indexes_of_a_tier_that_cannot_be_decoded_are_derived_anew(tmp_path: Path) -> None:
    key, file, restored = generate_private_key(65537, 2048), tmp_path / "key.pem", tmp_path / "restored"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    segments = three_segments()
    tier = write_aiven(tmp_path / "tier", segments, AivenForm(key=key))
    (indexes,) = tier.rglob(f"*{segments[1].segment_id}.indexes")
    indexes.write_bytes(bytes(len(indexes.read_bytes())))
    assert main(["restore-tier", str(tier), "--output", str(restored), "--tier-key", str(file)]) == ExitStatus.DONE
    assert [record.offset for record in records_of(restored / "orders-0")] == list(range(6))
    assert main(["verify", str(restored)]) == ExitStatus.DONE


def test_last_segment_of_a_tier_that_holds_no_batch_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tier = write_local(tmp_path / "tier", three_segments())
    (log,) = tier.rglob(f"{4:020d}-*.log")
    log.write_bytes(bytes(reversed(log.read_bytes())))
    assert main(["restore-tier", str(tier), "--output", str(tmp_path / "out"), "-n"]) == ExitStatus.FAILED
    assert "does not begin with a batch" in capsys.readouterr().err


@pytest.mark.parametrize("is_there", [False, True])
def test_key_or_new_cluster_that_is_none_is_one_line_of_wrong_usage(
    tiers: TierSamples, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_there: bool
) -> None:
    sample, none = tiers["aiven-encrypted"], tmp_path / "none"
    if is_there:
        none.touch()
    command = ["restore-tier", place_of("aiven-encrypted", sample), "--output", str(tmp_path / "out"), "-n"]
    for option, value in (("--tier-key", f"key1={none}"), ("--tier-key", str(none)), ("--topic-ids-from", str(none))):
        assert main([*command, option, value]) == ExitStatus.USAGE
        said = capsys.readouterr()
        assert said.out == ""
        assert [option in line and str(none) in line for line in said.err.splitlines()] == [True]


@pytest.mark.parametrize("piece_bytes", [1, 7, 61, 1 << 20])
def test_batches_get_another_epoch_wherever_their_bytes_are_cut(piece_bytes: int) -> None:
    batches = [encode_batch([Record(n, 1, b"k", b"v" * 90 * n)], partition_leader_epoch=n) for n in range(4)]
    log = b"".join(batches)
    pieces = [log[at : at + piece_bytes] for at in range(0, len(log), piece_bytes)]
    due = b"".join(encode_batch([Record(n, 1, b"k", b"v" * 90 * n)], partition_leader_epoch=77) for n in range(4))
    assert b"".join(numbered(pieces, 77)) == due
    torn = [*pieces, bytes(40)]
    assert b"".join(numbered(torn, 77)) == due + bytes(40)
