"""``erase --certificate --tier``: what the tier still holds stands in the certificate, in place and of a copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from tests.tiers.drawn import write_local
from tests.tiers.test_commands import drawn, local_dir


@pytest.mark.parametrize("into_copy", [False, True])
def test_segments_of_a_tier_with_a_key_are_holders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], into_copy: bool
) -> None:
    tier, log_dir = write_local(tmp_path / "tier", drawn()), local_dir(tmp_path / "data", drawn()[2:])
    before = {path: path.read_bytes() for path in tier.rglob("*") if path.is_file()}
    words = ["erase", "k7", "--topic", "orders", "--yes", "--assume-committed", "--tier", str(tier)]
    words += ["--output", str(tmp_path / "copy")] if into_copy else ["--delete-delay", "0"]
    certificate = tmp_path / "cert.json"
    status = main([*words, "--certificate", str(certificate), "--log-dir", str(log_dir)])
    assert status in (ExitStatus.DONE, ExitStatus.WORK_TO_DO), capsys.readouterr().err
    found = json.loads(certificate.read_bytes())
    assert found["tier"] == str(tier)
    holders = {holder["path"] for holder in found["holders"]}
    assert any(path.startswith(str(tier)) for path in holders)
    assert any(path.startswith(str(log_dir)) for path in holders) == (into_copy or status == ExitStatus.WORK_TO_DO)
    assert "tier://" not in certificate.read_text()
    assert {path: path.read_bytes() for path in tier.rglob("*") if path.is_file()} == before
    assert main(["erase", "--check", str(certificate)]) == 0
    assert main(["erase", "--pending", str(certificate)]) == 10
