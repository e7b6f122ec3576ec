"""Log dirs that real brokers wrote, before their cleaner ran and after it: nothing is wrong with them.

Partitions whose records are punched out of the sample are left aside: they are full of zeros.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from policies.findings.of_log_dir import CHECKPOINTS
from storage.checkpoints import format_offset_checkpoint
from storage.log_dir import LogDir
from tests.cleaner.engine.doctor.made import seen
from tests.conftest import Samples

WHOLE = ("orders-0", "payments-0", "ledger-0", "empty-0", "single-0")


def forget_absent(log_dir: Path) -> None:
    """Take the lines of the partitions that the copy leaves out from the checkpoints: they would count as lost."""
    for name in CHECKPOINTS:
        if not (log_dir / name).exists():
            continue
        offsets = LogDir(log_dir).offsets(name)
        kept = {partition: offset for partition, offset in offsets.items() if (log_dir / str(partition)).is_dir()}
        (log_dir / name).write_bytes(format_offset_checkpoint(kept))


@pytest.mark.parametrize("stage", ["before", "after", "before2", "after2"])
def test_log_dir_of_kafka_4_has_no_finding(samples: Samples, tmp_path: Path, capsys, stage: str) -> None:
    log_dir = samples.copy(stage, tmp_path / stage, WHOLE)
    forget_absent(log_dir)
    assert seen(capsys, log_dir, options=("--deep",)) == (0, [])


@pytest.mark.parametrize("stage", ["before", "after"])
def test_log_dir_of_kafka_2_has_no_finding(old_samples: Samples, tmp_path: Path, capsys, stage: str) -> None:
    log_dir = old_samples.copy(stage, tmp_path / stage)
    forget_absent(log_dir)
    assert seen(capsys, log_dir, options=("--deep",)) == (0, [])
