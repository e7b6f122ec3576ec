"""Delete horizons at the end of int64, against Kafka: where the sum wraps, none is set; tombstones and markers stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.interop.referee import Referee
from tests.interop.sides import partition_dir
from tests.interop.test_filtered_logs import ROUNDS, Drawn, appended, cleaned_by_both

pytestmark = pytest.mark.kafka

LONG_MAX: Final = (1 << 63) - 1
DAY_MS: Final = 86_400_000


@pytest.mark.parametrize("beyond_ms", [-365 * DAY_MS, 0, 1, None])
def test_horizons_are_set_as_far_as_an_int64_reaches(referee: Referee, tmp_path: Path, beyond_ms: int | None) -> None:
    """The first round's sum lies ``beyond_ms`` beyond int64; None: ``delete.retention.ms`` is the greatest there is."""
    drawn = replace(Drawn.of(1), codecs=("none",), transactions=(True,) * ROUNDS, waits_ms=(2 * DAY_MS,) * ROUNDS)
    log_dir, now_ms, horizons = tmp_path / "log", 0, set[int | None]()
    log_dir.mkdir()
    for number in range(3):
        now_ms = appended(referee, log_dir, drawn, number, now_ms) + drawn.waits_ms[number]
        if number == 0:
            retention_ms = LONG_MAX if beyond_ms is None else LONG_MAX - now_ms + beyond_ms
            drawn = replace(drawn, retentions_ms=(retention_ms,) * ROUNDS)
        cleaned_by_both(referee, log_dir, drawn, number, now_ms)
        (log,) = referee.read([partition_dir(log_dir)], now_ms=now_ms, checkpoints=True)
        horizons |= {batch.delete_horizon_ms for batch in log.batches()}
        assert any(record.value is None for batch in log.batches() for record in batch.records)
    is_within = beyond_ms is not None and beyond_ms < 0
    assert horizons > {None} if is_within else horizons <= {None, LONG_MAX}
    assert LONG_MAX not in horizons or beyond_ms == 0
