"""What the daemon remembers of damaged files."""

from __future__ import annotations

from pathlib import Path

from cleaner.daemon.observer import JobKind
from cleaner.daemon.worker import DamagedWorks
from storage.names import TopicPartition
from tests.partition_dirs import PartitionDir, keyed


def test_a_work_may_be_tried_again_once_after_its_files_changed(tmp_path: Path) -> None:
    made = PartitionDir(tmp_path, "orders-0").segment(0, keyed(0, "a=1"))
    work, works = (JobKind.COMPACTION, (str(tmp_path), TopicPartition("orders", 0))), DamagedWorks()
    works.note(work, "a corrupt batch")
    assert works.mended() == []
    made.segment(1, keyed(1, "b=1"))
    assert works.mended() == [work]
    assert works.mended() == []
