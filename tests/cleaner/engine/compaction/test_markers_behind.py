"""The marker that settles a transaction may lie any number of segments behind the round."""

from __future__ import annotations

import pytest

from storage.records import ControlType
from storage.txn_index import AbortedTxn, format_aborted_txn
from tests.batches import encode_control_batch
from tests.cleaner.engine.compaction.test_resolve import data, read_by
from tests.partition_dirs import (
    COMPACT,
    DAY_MS,
    NOW_MS,
    PartitionDir,
    a_cleaner,
    committed,
    configured,
    keyed,
    latest,
    request,
)

OLD_MS = NOW_MS - DAY_MS
LAYERS = configured(orders={**COMPACT, "min.compaction.lag.ms": "1000"})
ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
BASES = (12, 40, 60)
"""Of the segments behind the round: the first begins where the round ends, the last is active."""


def marked(log_dir, kind, base, *, is_indexed):
    """``a=2`` is of a transaction that the round leaves open; its marker lies in the segment at ``base``, if in any."""
    made = PartitionDir(log_dir).segment(
        0,
        keyed(0, "a=1", timestamp_ms=OLD_MS),
        data(10, "b=1", timestamp_ms=OLD_MS),
        data(11, "a=2", sequence=1, timestamp_ms=OLD_MS),
        mtime_ms=OLD_MS,
    )
    producer = {"producer_id": 7, "producer_epoch": 0, "coordinator_epoch": 0}
    for other in BASES:
        batches, aborted = [keyed(other, f"x{other}=1")], b""
        if other == base:
            batches.append(encode_control_batch(kind, offset=base + 1, timestamp_ms=NOW_MS, **producer))
            aborted = format_aborted_txn(AbortedTxn(7, 10, base + 1, base + 2)) if is_indexed else b""
        made.segment(other, *batches, keyed(other + 2, f"y{other}=1"), aborted=aborted)
    committed(log_dir, made)
    return made


def clean(log_dir):
    _, outcome = a_cleaner(log_dir, LAYERS).clean(request())
    ((_, result),) = outcome.results.items()
    return result


def logs(directory):
    return {path.name: path.read_bytes() for path in directory.path.iterdir() if path.is_file()}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("kind", "is_indexed"), [(ABORT, False), (COMMIT, True)])
def test_marker_that_contradicts_the_index_is_met_however_far_behind_it_lies(tmp_path, base, kind, is_indexed):
    directory = marked(tmp_path, kind, base, is_indexed=is_indexed)
    before = logs(directory)
    assert f"{base:020d}.txnindex" in (clean(tmp_path).error or "")
    assert logs(directory) == before


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("kind", "is_indexed", "left"), [(ABORT, True, b"1"), (COMMIT, False, b"2")])
def test_marker_that_agrees_with_the_index_is_met_and_nothing_behind_it_is_read(
    tmp_path, monkeypatch, base, kind, is_indexed, left
):
    opened = read_by(monkeypatch)
    directory = marked(tmp_path, kind, base, is_indexed=is_indexed)
    assert clean(tmp_path).error is None
    assert latest(directory.path)[b"a"] == left
    assert opened == list(BASES[: BASES.index(base) + 1])
