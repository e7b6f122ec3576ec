"""``prove-erased --tier`` searches every segment of a tier, also those that are no part of the log any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from tests.tiers.drawn import AivenForm, a_batch, segment_of, write_aiven, write_local
from tests.tiers.test_commands import drawn, local_dir
from tests.tiers.test_verify import flip


def proved(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, Any]]:
    status = main(["prove-erased", *map(str, words), "--json"])
    out, err = capsys.readouterr()
    assert out, err
    return status, json.loads(out)


@pytest.fixture(params=["local", "aiven"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Four segments, and one of another leader, whose records are no part of the log."""
    segments = [*drawn(), segment_of(6, a_batch(6, "lost", epoch=0), a_batch(7, "lost", epoch=0), name="lost")]
    if request.param == "local":
        return write_local(tmp_path / "tier", segments)
    return write_aiven(tmp_path / "tier", segments, AivenForm(is_compressed=True))


def test_a_key_is_found_in_every_copy(tier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = local_dir(tmp_path / "data", drawn()[2:])
    status, document = proved(capsys, "k7", "--log-dir", log_dir, "--tier", tier)
    assert status == ExitStatus.WORK_TO_DO
    holding = [one for one in document["files"] if one["found"]]
    assert len(holding) == 3
    in_tier = [one for one in holding if one["log_dir"] == str(tier)]
    assert len(in_tier) == 2
    assert all(str(tier) in one["path"] and Path(one["path"]).is_file() for one in in_tier)
    assert "tier://" not in json.dumps(document)
    assert {found["code"] for one in in_tier for found in one["found"]} == {"KEPT"}


def test_a_key_that_is_nowhere_is_proved(tier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, document = proved(capsys, "no-such-key", "--tier", tier)
    assert status == ExitStatus.DONE
    searched = [one for one in document["files"] if one["path"].endswith(".log")]
    assert len(searched) == 5
    status, document = proved(capsys, "k1", "--tier", tier, "--topic", "orders")
    assert status == ExitStatus.WORK_TO_DO


def test_what_cannot_be_read_is_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = drawn()
    write_aiven(tmp_path / "tier", [first], AivenForm(key=generate_private_key(65537, 2048)))
    write_aiven(tmp_path / "tier", others, AivenForm(is_compressed=True))
    status = main(["prove-erased", "no-such-key", "--tier", str(tmp_path / "tier")])
    assert status == ExitStatus.FAILED
    assert "--tier-key key-1=FILE" in capsys.readouterr().err


def test_a_chunk_that_does_not_decompress_is_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tier = write_aiven(tmp_path / "tier", drawn(), AivenForm(is_compressed=True))
    flip(next(tier.rglob("*.log")), 20)
    status, _ = proved(capsys, "no-such-key", "--tier", tier)
    assert status == ExitStatus.DAMAGED
