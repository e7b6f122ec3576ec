"""Commands on a dying disk, a sample: each ends with a line and a status, loses nothing, and the next one finishes."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path
from random import Random
from typing import Final

import pytest

from tests.cleaner.cli.test_missing_dirs import EXPIRED, NO_METADATA, POLICY, a_log_dir, configured
from tests.disk.__main__ import in_memory
from tests.disk.acts import ACTS
from tests.disk.dying import FAULTS, LOOKING, moments, try_fault
from tests.disk.mount import mounted
from tests.disk.server import CHANGES, Fault
from tests.disk.trials import case_of
from tests.mutants.suite import ROOT
from tests.sampled import day, some

TRIED: Final = 8
OPERATIONS: Final = 80
"""Nearly all acts have as many; a fault that is not reached is no fault."""
CALLS: Final = (*LOOKING, "read", "statfs", "access", *CHANGES)


@pytest.mark.parametrize(("act", "fault"), some(list(product(ACTS, FAULTS)), TRIED))
def test_a_command_on_a_dying_disk_ends_in_words_and_loses_nothing(act: str, fault: str) -> None:
    dice = Random(f"{day()} {act} {fault}")
    with in_memory() as scratch:
        case = case_of(act, day(), scratch)
        (at,) = moments(fault, OPERATIONS, 1, dice)
        assert try_fault(case, fault, at, scratch, dice) == []


@pytest.mark.parametrize("at", some(range(100, 200), 6, always=[139]))
def test_a_disk_that_stops_reading_while_a_partition_is_compacted_is_an_error(at: int) -> None:
    """This file system drops a file's pages when the file is opened again, as NFS does: a mapping of it loses them."""
    with in_memory() as scratch:
        assert try_fault(case_of("clean", 0, scratch), "reads", at, scratch, Random(at)) == []


@pytest.mark.parametrize("at", some(range(0, 60, 3), 4))
def test_a_log_dir_whose_disk_dies_fails_alone(at: int, tmp_path: Path) -> None:
    well, dying = a_log_dir(tmp_path / "well"), tmp_path / "dying"
    backing = a_log_dir(tmp_path / "backing", 1)
    config = configured(tmp_path, dying, well, more=NO_METADATA)
    command = [sys.executable, "-m", "cleaner", "clean", "--delete-delay", "0", "--config", config, *POLICY]
    faults = [Fault(CALLS, "EIO", at, -1)]
    with mounted(backing, dying, tmp_path / "recording", faults):
        first, second = (
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False) for _ in range(2)
        )
    assert first.returncode in (0, 1)
    assert second.returncode == 1
    for told in (first.stderr, second.stderr)[first.returncode == 0 :]:  # the first run may end before the disk does
        assert str(dying) in told
        assert "Input/output error" in told
    assert not (well / "orders-0" / EXPIRED).exists(), second.stderr
