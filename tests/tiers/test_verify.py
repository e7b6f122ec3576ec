"""``verify --tier``: each kind of damage is named, and a healthy tier has none."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from policies.findings.findings import Finding, FindingCode, Harm
from policies.findings.of_tiers import CONTENT_CODES, kinds_of
from storage.records import ControlType
from storage.tiers.metadata import metadata_partition
from storage.tiers.segments import TieredPartition
from tests.batches import encode_control_batch
from tests.partition_dirs import NOW_MS
from tests.tier_samples import TierSamples
from tests.tiers.drawn import (
    COPYING,
    DELETED,
    TOPIC_ID,
    AivenForm,
    DrawnSegment,
    MetadataWriter,
    a_batch,
    an_id,
    segment_of,
    write_aiven,
    write_local,
)
from tests.tiers.test_samples import NAMES, tier_of

DAY_MS = 86_400_000
LATER_MS = NOW_MS + 10 * DAY_MS
"""Behind the last event: what it does not name, nobody names."""
FORMS = ("local", "plain", "zstd", "encrypted", "both")


@dataclass(frozen=True)
class Drawn:
    """A tier with the metadata that tell of it."""

    root: Path
    form: str
    key: RSAPrivateKey

    @property
    def tier(self) -> Path:
        return self.root / "tier"

    @property
    def log_dir(self) -> Path:
        return self.root / "data"

    @property
    def place(self) -> str:
        """What the tier is named by."""
        return str(self.tier)

    def write(self, segments: list[DrawnSegment], named: MetadataWriter) -> None:
        if self.form == "local":
            write_local(self.tier, segments)
        else:
            key = self.key if self.form in ("encrypted", "both") else None
            write_aiven(self.tier, segments, AivenForm("", 300, self.form in ("zstd", "both"), key))
        other = segment_of(0, a_batch(0, "x"), topic="other", topic_id="A" * 21 + "Q")
        named.copied(other, DELETED, LATER_MS)
        one = TieredPartition("orders", 0, TOPIC_ID)
        named.write(self.log_dir, metadata_partition(one, 50))

    def verify(self, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
        key_file = self.root / "key.pem"
        key_file.write_bytes(self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        options = ["--log-dir", self.log_dir, "--tier", self.place, "--tier-key", key_file, "--json", *more]
        status = main(["verify", *map(str, options)])
        return status, json.loads(capsys.readouterr().out)

    def verify_as_text(self, capsys: pytest.CaptureFixture[str], *more: str) -> str:
        options = ["--log-dir", self.log_dir, "--tier", self.place, "--tier-key", self.root / "key.pem", *more]
        main(["verify", *map(str, options)])
        return capsys.readouterr().out

    def object(self, suffix: str, start: int = 6) -> Path:
        (found,) = self.tier.rglob(f"{start:020d}-*{suffix}")
        return found


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return generate_private_key(65537, 2048)


@pytest.fixture(params=FORMS)
def drawn(request: pytest.FixtureRequest, tmp_path: Path, key: RSAPrivateKey) -> Drawn:
    return Drawn(tmp_path, request.param, key)


def four_segments() -> list[DrawnSegment]:
    batches = [a_batch(n, f"value {n} " * 40) for n in range(12)]
    return [segment_of(start, *batches[start : start + 3]) for start in range(0, 12, 3)]


def named(segments: list[DrawnSegment]) -> MetadataWriter:
    writer = MetadataWriter()
    for segment in segments:
        writer.copied(segment)
    return writer


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x55
    path.write_bytes(data)


def lose_log(drawn: Drawn) -> None:
    drawn.object(".log").unlink()


def lose_everything(drawn: Drawn) -> None:
    for path in drawn.tier.rglob(f"{6:020d}-*"):
        path.unlink()


def lose_indexes(drawn: Drawn, start: int = 6) -> None:
    drawn.object(".index" if drawn.form == "local" else ".indexes", start).unlink()


def cut_log(drawn: Drawn) -> None:
    path = drawn.object(".log")
    path.write_bytes(path.read_bytes()[:-50])


def flip_a_record(drawn: Drawn) -> None:
    flip(drawn.object(".log"), 250)


def damage_manifest(drawn: Drawn) -> None:
    drawn.object(".timeindex" if drawn.form == "local" else ".rsm-manifest").write_bytes(b"\x01{" * 6)


def put_an_earlier_log(drawn: Drawn) -> None:
    drawn.object(".log").write_bytes(drawn.object(".log", 3).read_bytes())


def put_a_later_log(drawn: Drawn) -> None:
    drawn.object(".log", 3).write_bytes(drawn.object(".log", 6).read_bytes())


def flip_an_index(drawn: Drawn) -> None:
    flip(drawn.object(".index" if drawn.form == "local" else ".indexes"), 7)


DAMAGES: dict[Callable[[Drawn], None], tuple[set[str], str]] = {
    lose_log: ({"TIER_LACKS"}, "data_lost"),
    lose_everything: ({"TIER_LACKS"}, "data_lost"),
    lose_indexes: ({"TIER_LACKS"}, "wrong_answer"),
    cut_log: ({"TIER_CORRUPT"}, "data_lost"),
    flip_a_record: ({"TIER_CORRUPT", "BATCH_CORRUPT"}, "data_lost"),
    put_an_earlier_log: ({"TIER_CORRUPT", "OFFSET_BACKWARDS"}, ""),
    flip_an_index: ({"TIER_CORRUPT", "OFFSET_INDEX_WRONG", "OFFSET_INDEX_CORRUPT"}, ""),
    damage_manifest: ({"TIER_CORRUPT", "TIME_INDEX_CORRUPT", "TIME_INDEX_WRONG"}, ""),
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_of_a_file_is_named_alone(
    drawn: Drawn, damage: Callable[[Drawn], None], capsys: pytest.CaptureFixture[str]
) -> None:
    drawn.write(four_segments(), named(four_segments()))
    damage(drawn)
    status, document = drawn.verify(capsys)
    codes, harm = DAMAGES[damage]
    assert status == ExitStatus.DAMAGED
    assert {finding["code"] for finding in document["findings"]} <= codes
    assert len(document["findings"]) == 1
    (finding,) = document["findings"]
    assert finding["harm"] == harm or not harm
    assert str(drawn.tier) in finding["path"]
    assert "tier://" not in json.dumps(document)
    assert damage not in (cut_log, flip_a_record) or finding["path"].endswith(".log")
    assert "--repair" not in finding["remedy"]


def test_log_of_a_later_segment_is_named_by_its_offsets(drawn: Drawn, capsys: pytest.CaptureFixture[str]) -> None:
    drawn.write(four_segments(), named(four_segments()))
    put_a_later_log(drawn)
    status, document = drawn.verify(capsys)
    found = {finding["code"]: finding["path"] for finding in document["findings"]}
    assert status == ExitStatus.DAMAGED
    assert found.get("OFFSET_BACKWARDS", found.get("TIER_CORRUPT")) == str(drawn.object(".log", 3))


def test_files_that_nobody_names_are_orphans_with_bytes_and_age(
    drawn: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = four_segments()
    deleted = segment_of(0, a_batch(0, "deleted"), name="deleted")
    writer = named(segments)
    writer.copied(deleted, DELETED)
    drawn.write([*segments, segment_of(3, a_batch(3, "unnamed"), name="unnamed"), deleted], writer)
    status, document = drawn.verify(capsys)
    assert (status, document["problems"]) == (ExitStatus.DONE, [])
    found = {finding["offset"]: finding for finding in document["findings"]}
    assert {finding["code"] for finding in found.values()} == {"TIER_ORPHAN"}
    assert "no broker names it" in found[3]["text"]
    assert "a broker deleted it" in found[0]["text"]


def test_offsets_that_no_copy_has_are_a_gap(drawn: Drawn, capsys: pytest.CaptureFixture[str]) -> None:
    segments = [segment for segment in four_segments() if segment.start != 6]
    drawn.write(segments, named(segments))
    status, document = drawn.verify(capsys)
    (finding,) = document["findings"]
    assert (status, finding["code"], finding["offset"]) == (ExitStatus.DAMAGED, "TIER_GAP", 6)
    assert "offsets 6 to 8 of orders-0" in finding["text"]


def test_a_copy_that_never_ended_hangs(drawn: Drawn, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("cleaner.engine.clock.SystemClock.now_ms", lambda _: LATER_MS)
    *segments, last = four_segments()
    writer = named(segments)
    writer.copied(last, COPYING)
    drawn.write([*segments, last], writer)
    status, document = drawn.verify(capsys)
    (finding,) = document["findings"]
    assert (status, finding["code"], finding["kafka_issue"]) == (ExitStatus.DONE, "TIER_HANGING", "KAFKA-17062")


def test_offsets_that_were_copied_twice_in_an_epoch_are_a_note(
    drawn: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = [*four_segments(), segment_of(3, a_batch(3, "value 3 " * 40), name="again")]
    drawn.write(segments, named(segments))
    status, document = drawn.verify(capsys)
    (finding,) = document["findings"]
    assert (status, finding["code"], finding["offset"]) == (ExitStatus.DONE, "TIER_OVERLAP", 3)


def test_what_was_written_behind_the_metadata_may_be_an_orphan(
    drawn: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = four_segments()
    late = replace(segment_of(12, a_batch(12, "late")), mtime_ms=LATER_MS + DAY_MS)
    drawn.write([*segments, late], named(segments))
    status, document = drawn.verify(capsys)
    (finding,) = document["findings"]
    assert (status, finding["code"], finding["harm"]) == (ExitStatus.DONE, "TIER_UNKNOWN", "note")


def test_without_the_key_the_content_is_not_read(tmp_path: Path, key: RSAPrivateKey, capsys: Any) -> None:
    drawn = Drawn(tmp_path, "encrypted", key)
    drawn.write(four_segments(), named(four_segments()))
    status = main(["verify", "--log-dir", str(drawn.log_dir), "--tier", str(drawn.tier), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (status, document["findings"], len(document["problems"])) == (ExitStatus.FAILED, [], 1)


@pytest.mark.parametrize("sample", NAMES)
def test_tiers_of_real_brokers_are_healthy(sample: str, tiers: TierSamples, capsys: pytest.CaptureFixture[str]) -> None:
    one = tiers[sample]
    options = ["--log-dir", one.log_dir, "--tier", tier_of(one), "--tier-key", tiers.private_key, "--json", "--deep"]
    status = main(["verify", *map(str, options)])
    document = json.loads(capsys.readouterr().out)
    assert (status, document["findings"], document["problems"]) == (ExitStatus.DONE, [], [])


def random_segments(draw: random.Random) -> list[DrawnSegment]:
    """A log of some epochs, cut into segments anywhere, with aborted transactions."""
    batches: list[tuple[int, bytes, bytes]] = []
    offset, epoch, lineage = 0, 0, [(0, 0)]
    while len(batches) < 12:
        if draw.random() < 0.2:
            epoch += draw.randint(1, 3)
            lineage.append((epoch, offset))
        values = [f"value {n} " * draw.randint(1, 30) for n in range(draw.randint(1, 4))]
        if draw.random() < 0.2:
            data = a_batch(offset, *values, epoch=epoch, producer_id=7, producer_epoch=0, base_sequence=offset,
                           is_transactional=True)  # fmt: skip
            marker = offset + len(values)
            ends = encode_control_batch(
                ControlType.ABORT,
                offset=marker,
                timestamp_ms=NOW_MS + marker * 1000,
                producer_id=7,
                producer_epoch=0,
                coordinator_epoch=0,
                partition_leader_epoch=epoch,
            )
            aborted = struct.pack(">hqqqq", 0, 7, offset, marker, marker + 1)
            batches.append((offset, data + ends, aborted))
            offset = marker + 1
        else:
            batches.append((offset, a_batch(offset, *values, epoch=epoch), b""))
            offset += len(values)
    cuts = sorted({0, *draw.sample(range(1, len(batches)), 3)})
    segments = []
    for first, last in zip(cuts, [*cuts[1:], len(batches)], strict=True):
        held = batches[first:last]
        end = batches[last][0] if last < len(batches) else offset
        epochs = [entry for entry in lineage if entry[1] < end]
        aborted = b"".join(entry for _, _, entry in held)
        segments.append(segment_of(held[0][0], *(data for _, data, _ in held), lineage=epochs, aborted=aborted))
    return segments


@pytest.mark.parametrize("seed", range(50))
def test_fifty_healthy_tiers_raise_no_alarm(
    seed: int, tmp_path: Path, key: RSAPrivateKey, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = random_segments(random.Random(seed))
    drawn = Drawn(tmp_path, FORMS[seed % len(FORMS)], key)
    drawn.write(segments, named(segments))
    status, document = drawn.verify(capsys, "--deep")
    assert (status, document["findings"], document["problems"]) == (ExitStatus.DONE, [], [])
    assert document["totals"]["segments"] == len(segments)


def test_repairs_and_operands_do_not_go_with_a_tier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "orders-0", "--tier", str(tmp_path)]) == ExitStatus.USAGE
    assert "does not go with --tier" in capsys.readouterr().err


def test_nothing_in_the_tier_changes(tmp_path: Path, key: RSAPrivateKey, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = Drawn(tmp_path, "both", key)
    drawn.write(four_segments(), named(four_segments()))
    shutil.copytree(drawn.tier, tmp_path / "before")
    drawn.verify(capsys)
    for path in (tmp_path / "before").rglob("*.*"):
        assert (drawn.tier / path.relative_to(tmp_path / "before")).read_bytes() == path.read_bytes()


def test_table_of_kinds_tells_number_bytes_and_remedy_in_80_columns(
    drawn: Drawn, capsys: pytest.CaptureFixture[str]
) -> None:
    segments = [segment for segment in four_segments() if segment.start != 6]
    drawn.write([*segments, segment_of(3, a_batch(3, "unnamed"), name="unnamed")], named(segments))
    lose_indexes(drawn, 9)
    flip(drawn.object(".log", 0), 250)
    status, document = drawn.verify(capsys)
    assert status == ExitStatus.DAMAGED
    kinds = {kind["code"]: kind for kind in document["kinds"]}
    assert {"TIER_GAP", "TIER_LACKS", "TIER_ORPHAN"} < kinds.keys()
    assert kinds["TIER_GAP"]["bytes"] is None
    orphan = sum(path.stat().st_size for path in drawn.tier.rglob(f"{3:020d}-{an_id('unnamed')}*"))
    assert (kinds["TIER_ORPHAN"]["findings"], kinds["TIER_ORPHAN"]["bytes"]) == (1, orphan)
    damaged = next(kind for code, kind in kinds.items() if code in ("TIER_CORRUPT", "BATCH_CORRUPT"))
    assert damaged["bytes"] == drawn.object(".log", 0).stat().st_size
    text = drawn.verify_as_text(capsys, "-q")
    lines = text.splitlines()
    assert lines[0].split()[:3] == ["Kind", "Number", "Bytes"]
    assert [line.split()[0] for line in lines[1 : 1 + len(kinds)]] == [kind["code"] for kind in document["kinds"]]
    assert max(map(len, lines[: 1 + len(kinds)])) <= 80


def test_every_code_of_a_tier_fits_the_table() -> None:
    codes = [*CONTENT_CODES, *(code for code in FindingCode if code.startswith("TIER_"))]
    for code in codes:
        for harm in Harm:
            (kind,) = kinds_of([Finding(code, harm, "path", "text", "remedy", size_bytes=1023 << 40)])
            assert len(f"{kind.code:20} {'99,999':>7} {'1023.0 TiB':>9}  {kind.remedy}") <= 80
