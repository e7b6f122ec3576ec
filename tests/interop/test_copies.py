"""``clean --output`` of a log dir at rest: to Kafka's loader a copy is the log dir at one moment, record for record."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cleaner.config.layers import Settings
from cleaner.config.reader import load_layers
from cleaner.engine.cleaner import Cleaner
from cleaner.engine.copy.manifest import damaged_files, read_manifest
from cleaner.engine.diff.comparing import ComparedDir, compared
from cleaner.engine.means import Means
from policies import Request
from policies.config.config_layers import ConfigLayers, Configured
from storage.errors import PlanOutOfDate
from storage.filesystem import FileSystem, NewFile, Purpose
from storage.log import Log as Appending
from storage.log import LogConfig
from storage.names import MANIFEST_FILE
from storage.records import Record
from tests.conftest import Samples
from tests.interop.referee import Referee
from tests.interop.verdicts import Log
from tests.partition_dirs import deleted_from_by_name

pytestmark = pytest.mark.kafka

PARTITIONS = ["orders-0", "payments-0", "ledger-0"]


def a_source(samples: Samples, to: Path, *options: str) -> tuple[Path, ConfigLayers, Request]:
    source = samples.copy("before", to, PARTITIONS)
    settings = deleted_from_by_name(source) if options else Settings()
    layers = load_layers(settings, [source], options).layers
    return source, layers, Request(samples.cleaned_at_ms("after"), confirmed=True)


def logs(referee: Referee, log_dir: Path) -> dict[str, Log]:
    """As a broker has them after it started on a copy: starting changes the directory."""
    started = shutil.copytree(log_dir, log_dir.with_name(f"{log_dir.name}-started"))
    found = referee.read([started / name for name in PARTITIONS], checkpoints=True)
    return dict(zip(PARTITIONS, [replace(log, dir="") for log in found], strict=True))


def assert_whole(copy: Path) -> None:
    manifest = read_manifest(copy)
    assert manifest
    assert manifest.files
    assert list(damaged_files(copy, manifest.files)) == []


def test_copy_that_leaves_nothing_out_is_the_same_log_dir(samples: Samples, referee: Referee, tmp_path: Path) -> None:
    source, layers, request = a_source(samples, tmp_path / "data", "retention.ms=-1")
    Cleaner(Configured((source,), layers)).copy(request, tmp_path / "copy", tool_version="1")
    assert_whole(tmp_path / "copy")
    assert logs(referee, tmp_path / "copy") == logs(referee, source)


def test_cleaned_copy_is_what_a_clean_in_place_leaves_and_every_record_is_accounted_for(
    samples: Samples, referee: Referee, tmp_path: Path
) -> None:
    source, layers, request = a_source(samples, tmp_path / "data")
    Cleaner(Configured((source,), layers)).copy(request, tmp_path / "copy", tool_version="1")
    in_place = shutil.copytree(source, tmp_path / "in-place")
    Cleaner(Configured((in_place,), layers)).clean(replace(request, delete_delay_ms=0))
    assert_whole(tmp_path / "copy")
    assert logs(referee, tmp_path / "copy") == logs(referee, in_place)
    differences = list(compared(ComparedDir.open(source), ComparedDir.open(tmp_path / "copy"), request.now_ms))
    assert [each.name for each in differences if each.is_damaged] == []
    assert sum(sum(each.difference.gone.values()) for each in differences if each.difference) > 0


@pytest.mark.parametrize("place", PARTITIONS)
def test_next_copy_after_a_session_in_between_is_of_the_later_moment(
    samples: Samples, referee: Referee, tmp_path: Path, place: str
) -> None:
    source, layers, request = a_source(samples, tmp_path / "data")

    def session() -> None:
        """As a broker that asks for no lock: it appends, and moves its high watermark."""
        with Appending.open(source / "orders-0", LogConfig(), FileSystem()) as log:
            log.append_records([Record(0, request.now_ms, b"late", b"1")], now_ms=request.now_ms)
            end = log.log_end_offset
        path = source / "replication-offset-checkpoint"
        lines = path.read_text().splitlines()
        path.write_text("\n".join(f"orders 0 {end}" if line.startswith("orders 0 ") else line for line in lines) + "\n")

    class Beside(FileSystem):
        """The session comes when the first file of a partition is copied."""

        has_begun = False

        def create(self, path: Path, like: Path, purpose: Purpose) -> NewFile:
            if path.parent.name == place and not self.has_begun:
                self.has_begun = True
                session()
            return super().create(path, like, purpose)

    with pytest.raises(PlanOutOfDate):
        Cleaner(Configured((source,), layers), Means(fs=Beside())).copy(request, tmp_path / "mixed", tool_version="1")
    assert not (tmp_path / "mixed" / MANIFEST_FILE).exists()
    Cleaner(Configured((source,), layers)).copy(request, tmp_path / "copy", tool_version="1")
    assert_whole(tmp_path / "copy")
    in_place = shutil.copytree(source, tmp_path / "in-place")
    Cleaner(Configured((in_place,), layers)).clean(replace(request, delete_delay_ms=0))
    assert logs(referee, tmp_path / "copy") == logs(referee, in_place)
