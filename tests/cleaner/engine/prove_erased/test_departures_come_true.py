"""A key is gone by the reported date once all reported needs are met; a moment before, the key is still there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from cleaner.engine.prove_erased.proving import ErasureProof, HolderPlans, KeySearch, prove
from cleaner.engine.prove_erased.wanted import KeyEncoding, wanted_keys
from policies import Request
from policies.config.config_layers import ConfigLayers
from policies.prove_erased import Departure, DepartureCode, Need
from storage.codecs.compression import Compression
from storage.records import ControlType, Record, encode_batch
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch
from tests.partition_dirs import DAY_MS, FakeClock, PartitionDir, a_cleaner, committed, configured, keyed

DELAY_MS: Final = 60_000
SEGMENT_MS: Final = 3_600_000
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "min.compaction.lag.ms": "600000",
    "delete.retention.ms": str(DAY_MS),
    "segment.ms": str(SEGMENT_MS),
    "file.delete.delay.ms": str(DELAY_MS),
}
KEYS: Final = tuple(f"user-{place:03d}" for place in range(60))


def proof_of(log_dir: Path, layers: ConfigLayers, now_ms: int) -> ErasureProof:
    wanted = wanted_keys(KEYS, KeyEncoding.TEXT)
    survey = HolderPlans(a_cleaner(log_dir, layers, clock=FakeClock(now_ms)).plan, layers)
    return prove(now_ms, KeySearch(wanted, KeyEncoding.TEXT, (log_dir,)), None, survey)


def clean(log_dir: Path, layers: ConfigLayers, now_ms: int) -> None:
    _, outcome = a_cleaner(log_dir, layers, clock=FakeClock(now_ms)).clean(Request(now_ms, confirmed=True))
    assert not outcome.errors


def told(proof: ErasureProof) -> dict[str, set[tuple[DepartureCode, int | None, tuple[Need, ...]]]]:
    """What is told of each file, by its name."""
    found: dict[str, set[tuple[DepartureCode, int | None, tuple[Need, ...]]]] = {}
    for (path, _), one in proof.departures.items():
        found.setdefault(path.name, set()).add((one.code, one.at_ms, one.needs))
    return found


def now_of(path: Path) -> int:
    """The moment at which files get their change times here."""
    return path.stat().st_ctime_ns // 1_000_000


def batch(base: int, time_ms: int, codec: Compression, *, is_tombstone: bool) -> bytes:
    value = None if is_tombstone else b"a name"
    records = [Record(base + place, time_ms, key.encode(), value) for place, key in enumerate(KEYS)]
    return encode_batch(records, compression=codec)


def roll(made: PartitionDir, time_ms: int) -> None:
    """What a broker does that appends a record behind ``segment.ms``: a new active segment begins."""
    base = made.end_offset
    made.segment(base, keyed(base, f"other-{base}=1", timestamp_ms=time_ms), mtime_ms=time_ms)
    committed(made.path.parent, made)


@pytest.fixture(params=list(Compression))
def erased(request: pytest.FixtureRequest, tmp_path: Path) -> PartitionDir:
    """Values in a closed segment, a tombstone for each in the active one, which is half an hour old."""
    now_ms = now_of(tmp_path)
    made = PartitionDir(tmp_path / "data")
    made.segment(0, batch(0, now_ms - 3 * SEGMENT_MS, request.param, is_tombstone=False))
    made.segment(60, batch(60, now_ms - SEGMENT_MS // 2, request.param, is_tombstone=True))
    committed(tmp_path / "data", made)
    return made


def test_topics_are_named_that_hold_a_key_and_have_segments_in_remote_storage(tmp_path: Path) -> None:
    now_ms, log_dir = now_of(tmp_path), tmp_path / "data"
    made = [
        PartitionDir(log_dir, f"{topic}-0").segment(0, keyed(0, f"{key}=1", timestamp_ms=now_ms))
        for topic, key in (("tiered", KEYS[0]), ("here", KEYS[1]), ("other", "nobody"), ("also", KEYS[2]))
    ]
    remote = {"cleanup.policy": "delete", "remote.storage.enable": "true"}
    layers = configured(tiered=remote, here={"cleanup.policy": "delete"}, other=remote, also=remote)
    assert proof_of(committed(log_dir, *made), layers, now_ms).remote_topics == ("also", "tiered")


SEGMENTS: Final = ("00000000000000000000.log", "00000000000000000060.log")


def test_compacted_key_goes_step_by_step_as_it_is_told(erased: PartitionDir) -> None:
    log_dir, layers = erased.path.parent, configured(orders=COMPACTED)
    now_ms = now_of(log_dir)
    closes_ms = _first_ms(erased, 60) + SEGMENT_MS + 1
    horizon_ms = closes_ms + DAY_MS
    values, tombstones = SEGMENTS

    assert told(proof_of(log_dir, layers, now_ms)) == {
        values: {(DepartureCode.SUPERSEDED, closes_ms + DELAY_MS, (Need.ROLL,))},
        tombstones: {(DepartureCode.TOMBSTONE, horizon_ms + DELAY_MS, (Need.ROLL, Need.WRITE))},
    }

    roll(erased, closes_ms)
    assert told(proof_of(log_dir, layers, closes_ms)) == {
        values: {(DepartureCode.SUPERSEDED, closes_ms + DELAY_MS, ())},
        tombstones: {(DepartureCode.TOMBSTONE, horizon_ms + DELAY_MS, (Need.ROLL, Need.WRITE))},
    }

    clean(log_dir, layers, closes_ms)
    proof = proof_of(log_dir, layers, closes_ms)
    assert {name: {code for code, _, _ in one} for name, one in told(proof).items()} == {
        values: {DepartureCode.TOMBSTONE},
        f"{values}.deleted": {DepartureCode.DELETED_FILE},
        f"{tombstones}.deleted": {DepartureCode.DELETED_FILE},
    }
    assert not any(hits.values for one in proof.holding if one.place.path.name == values for hits in one.hits)

    clean(log_dir, layers, closes_ms + DELAY_MS)
    waiting = {values: {(DepartureCode.TOMBSTONE, horizon_ms + DELAY_MS, (Need.ROLL, Need.WRITE))}}
    assert told(proof_of(log_dir, layers, closes_ms + DELAY_MS)) == waiting

    roll(erased, closes_ms + 2 * SEGMENT_MS)
    proof = proof_of(log_dir, layers, closes_ms + 2 * SEGMENT_MS)
    assert told(proof) == {values: {(DepartureCode.TOMBSTONE, horizon_ms + DELAY_MS, ())}}
    assert (proof.gone_by_ms, proof.needs) == (horizon_ms + DELAY_MS, ())

    early = Path(shutil.copytree(log_dir, log_dir.with_name("early")))
    clean(early, layers, horizon_ms - 1)
    assert values in told(proof_of(early, layers, horizon_ms - 1))
    clean(log_dir, layers, horizon_ms)
    assert values not in told(proof_of(log_dir, layers, horizon_ms))
    clean(log_dir, layers, horizon_ms + DELAY_MS)
    gone = proof_of(log_dir, layers, horizon_ms + DELAY_MS)
    assert (gone.holding, gone.undecoded, gone.unread, gone.departures) == ((), (), (), {})


def test_clean_never_closes_the_active_segment_for_it(erased: PartitionDir) -> None:
    log_dir, layers = erased.path.parent, configured(orders=COMPACTED)
    later_ms = now_of(log_dir) + 30 * DAY_MS
    clean(log_dir, layers, later_ms)
    clean(log_dir, layers, later_ms + DELAY_MS)
    proof = proof_of(log_dir, layers, later_ms + DELAY_MS)
    assert set(told(proof)) == set(SEGMENTS)
    assert Need.ROLL in proof.needs


def test_latest_value_stays_until_a_tombstone_follows(tmp_path: Path) -> None:
    now_ms = now_of(tmp_path)
    made = PartitionDir(tmp_path / "data")
    made.segment(0, batch(0, now_ms - 3 * SEGMENT_MS, Compression.NONE, is_tombstone=False))
    roll(made, now_ms - SEGMENT_MS)
    proof = proof_of(tmp_path / "data", configured(orders=COMPACTED), now_ms)
    assert told(proof) == {SEGMENTS[0]: {(DepartureCode.LATEST_VALUE, None, (Need.DELETE_KEY,))}}
    assert proof.gone_by_ms is None


def test_key_of_a_topic_with_retention_goes_at_the_moment_that_is_told(tmp_path: Path) -> None:
    now_ms = now_of(tmp_path)
    layers = configured(
        orders={"cleanup.policy": "delete", "retention.ms": str(DAY_MS), "file.delete.delay.ms": str(DELAY_MS)}
    )
    made = PartitionDir(tmp_path / "data")
    made.segment(0, batch(0, now_ms, Compression.LZ4, is_tombstone=False))
    roll(made, now_ms + 5 * DAY_MS)
    expires_ms = now_ms + DAY_MS + 1
    log_dir = tmp_path / "data"
    assert told(proof_of(log_dir, layers, now_ms)) == {
        SEGMENTS[0]: {(DepartureCode.RETENTION, expires_ms + DELAY_MS, ())}
    }
    for early_ms in (expires_ms - 1, expires_ms, expires_ms + DELAY_MS - 1):
        clean(log_dir, layers, early_ms)
        proof = proof_of(log_dir, layers, early_ms)
        assert proof.gone_by_ms == expires_ms + DELAY_MS
        assert proof.holding
    clean(log_dir, layers, expires_ms + DELAY_MS)
    assert proof_of(log_dir, layers, expires_ms + DELAY_MS).holding == ()


def test_topic_of_which_nobody_speaks_has_no_date(tmp_path: Path) -> None:
    now_ms = now_of(tmp_path)
    made = PartitionDir(tmp_path / "data")
    made.segment(0, batch(0, now_ms, Compression.NONE, is_tombstone=False))
    roll(made, now_ms)
    proof = proof_of(tmp_path / "data", configured(), now_ms)
    assert told(proof) == {SEGMENTS[0]: {(DepartureCode.KEPT, None, (Need.CONFIRM,))}}


def _first_ms(made: PartitionDir, base: int) -> int:
    from tests.batches import iter_batches

    return next(iter_batches(made.log(base).read_bytes(), made.log(base))).header.max_timestamp_ms


def test_a_proof_has_the_latest_moment_and_every_need_of_its_files():
    question = KeySearch(wanted_keys(KEYS[:1], KeyEncoding.TEXT), KeyEncoding.TEXT, ())
    known = [
        Departure(DepartureCode.TOMBSTONE, 7, (Need.WRITE, Need.ROLL), ""),
        Departure(DepartureCode.RETENTION, 9, (Need.ROLL,), ""),
        Departure(DepartureCode.ABORTED, 5, (), ""),
    ]
    unknown = Departure(DepartureCode.KEPT, None, (Need.REMOVE,), "")
    told = {}
    for departures in (known, [*known, unknown], []):
        found = {(Path("file"), place): one for place, one in enumerate(departures)}
        proof = ErasureProof(0, question, (), found)
        told[len(departures)] = proof.gone_by_ms, proof.needs
    assert told == {3: (9, (Need.ROLL, Need.WRITE)), 4: (None, (Need.ROLL, Need.WRITE, Need.REMOVE)), 0: (None, ())}


def test_record_of_an_aborted_transaction_supersedes_nothing(tmp_path: Path) -> None:
    """The value before it is still the latest; the aborted one goes with the next round."""
    now_ms = now_of(tmp_path)
    old_ms = now_ms - 3 * SEGMENT_MS
    producer = {"producer_id": 7, "producer_epoch": 0}
    key, log_dir, layers = KEYS[0], tmp_path / "data", configured(orders=COMPACTED)
    made = PartitionDir(log_dir).segment(0, keyed(0, f"{key}=kept", timestamp_ms=old_ms))
    aborted = keyed(1, f"{key}=aborted", timestamp_ms=old_ms, is_transactional=True, base_sequence=0, **producer)
    made.segment(1, aborted)
    marker = encode_control_batch(
        ControlType.ABORT, offset=2, timestamp_ms=old_ms, coordinator_epoch=0, producer_id=7, producer_epoch=0
    )
    made.segment(2, marker, aborted=format_aborted_txn(AbortedTxn(7, 1, 2, 3)))
    roll(made, now_ms - SEGMENT_MS)
    found = told(proof_of(log_dir, layers, now_ms))
    assert found == {
        f"{0:020d}.log": {(DepartureCode.LATEST_VALUE, None, (Need.DELETE_KEY,))},
        f"{1:020d}.log": {(DepartureCode.ABORTED, now_ms + DELAY_MS, ())},
    }
    clean(log_dir, layers, now_ms)
    clean(log_dir, layers, now_ms + 2 * DELAY_MS)
    proof = proof_of(log_dir, layers, now_ms + 2 * DELAY_MS)
    assert [hit.offset for one in proof.holding for hits in one.hits for hit in hits.told] == [0]
