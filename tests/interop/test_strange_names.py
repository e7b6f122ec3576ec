"""Names in a partition directory that Kafka does not give: what ``verify`` says of a start comes true."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from policies.findings.findings import Harm
from policies.findings.of_log_dir import PartitionNames, partition_name_findings
from storage.names import TopicPartition
from tests.conftest import Samples
from tests.interop.referee import Referee
from tests.interop.verdicts import KafkaRefused

pytestmark = pytest.mark.kafka

NAMES: Final = (
    *("leader-epoch-checkpoint.deleted", "partition.metadata.deleted", "foo.log.deleted", ".deleted"),
    *("foo.log", "foo.index", "foo.timeindex", "foo.txnindex", "foo.snapshot", "foo.swap", "foo.cleaned", ".log"),
    *("foo.log.swap", "99999999999999999999.log", "99999999999999999999.snapshot"),
    *("foo.txt", "log", "foo.checkpoint", f"{0:020d}.log.1", f"{0:020d}.index.bak"),
    *("-1.log", "+5.log", f"{5:020d}.foo.log", "+5.index", "5.swap", "9.cleaned"),
)


def test_a_start_fails_at_those_names_that_verify_says_it_fails_at(
    samples: Samples, referee: Referee, tmp_path: Path
) -> None:
    healthy = samples.copy("before", tmp_path / "data", ("single-0",)) / "single-0"
    for name in NAMES:
        directory = shutil.copytree(healthy, tmp_path / "tried" / "single-0")
        (directory / name).touch()
        found = list(partition_name_findings(str(directory), PartitionNames((name,)), TopicPartition("single", 0), ()))
        harm = found[0].harm if found else None
        try:
            referee.read([directory])
            refused = False
        except KafkaRefused:
            refused = True
        assert (name, refused) == (name, harm is Harm.NO_START)
        if not refused and harm in (None, Harm.WASTE):
            assert not (directory / name).exists(), name
        elif not refused and harm is Harm.NOTE:
            assert (directory / name).exists(), name
        shutil.rmtree(directory.parent)
