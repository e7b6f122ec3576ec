"""``partition.metadata`` is written again where the metadata log of a real broker leaves no doubt, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.engine.repair.repairing import RepairRequest, Repairs, repair_log_dirs
from cleaner.engine.verify.checked import CheckRequest
from policies.findings.repairs import RepairCode, RepairKind
from tests.cleaner.engine.repair.test_repairs import finds, only
from tests.conftest import Samples
from tests.partition_dirs import a_cleaner, configured

TOPIC_ID = frozenset({RepairKind.TOPIC_ID})
OTHER = "version: 0\ntopic_id: HOm0pXrrTJ63md-DgiluXA"


@pytest.fixture
def log_dir(samples: Samples, tmp_path: Path) -> Path:
    """Of a broker that was stopped."""
    return samples.copy("after", tmp_path / "data", ["orders-0", "ledger-0"])


def repair(log_dir: Path, *paths: Path) -> Repairs:
    """Lock, look, mend."""
    with a_cleaner(log_dir, configured()).locked() as opened:
        return repair_log_dirs(opened, RepairRequest(CheckRequest(), TOPIC_ID), finds(*paths))


@pytest.mark.parametrize("damage", [None, b"", b"garbage"])
def test_it_is_written_as_kafka_writes_it(log_dir: Path, damage: bytes | None) -> None:
    path = log_dir / "orders-0" / "partition.metadata"
    before = path.read_bytes()
    path.unlink() if damage is None else path.write_bytes(damage)
    assert only(repair(log_dir, path)).is_done
    assert path.read_bytes() == before
    kept = path.with_name("partition.metadata.deleted")
    assert (kept.read_bytes() if kept.exists() else None) == damage


@pytest.mark.parametrize(
    ("story", "code"),
    [
        ("another topic's id", RepairCode.OTHER_TOPIC),
        ("a stray of the same name", RepairCode.OTHER_TOPIC),
        ("later epochs than the metadata log knows", RepairCode.OTHER_TOPIC),
        ("another log dir", RepairCode.NOT_ASSIGNED),
        ("another broker", RepairCode.NOT_ASSIGNED),
        ("no metadata log", RepairCode.NOT_ASSIGNED),
        ("a damaged metadata log", RepairCode.NOT_ASSIGNED),
    ],
)
def test_doubt_is_reported_and_nothing_is_written(log_dir: Path, story: str, code: RepairCode) -> None:
    path, properties = log_dir / "orders-0" / "partition.metadata", log_dir / "meta.properties"
    path.unlink()
    match story.rsplit(maxsplit=1)[-1]:
        case "id":
            path.write_text(OTHER)
        case "name":
            (log_dir / "orders-0.0123456789abcdef0123456789abcdef-stray").mkdir()
        case "knows":
            (log_dir / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n99 0\n")
        case "dir":
            properties.write_text(properties.read_text().replace("directory.id=", "directory.id=x"))
        case "broker":
            properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
        case _:
            for log in (log_dir / "__cluster_metadata-0").glob("*"):
                log.write_bytes(b"?" * 100) if "damaged" in story else log.unlink()
            (log_dir / "__cluster_metadata-0").rmdir() if "no" in story else None
    before = path.read_bytes() if path.exists() else None
    decided = only(repair(log_dir, path)).planned.repair
    assert (story, decided.code) == (story, code), decided.text
    assert (path.read_bytes() if path.exists() else None) == before
