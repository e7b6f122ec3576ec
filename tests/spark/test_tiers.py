"""A tier as a table: the rows are the records that a consumer read, in the workers' processes, too."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from cleaner.spark import register
from cleaner.spark.table.options import parse_options
from cleaner.spark.table.planning import TierLacksSegments, plan_read
from cleaner.spark.table.source import KafkaLogSource
from storage.errors import InvalidConfig
from tests.spark.tables import read
from tests.tier_samples import AIVEN, TierSamples
from tests.tiers.test_samples import NAMES, tier_of


@pytest.mark.parametrize("sample", NAMES)
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_rows_are_what_a_consumer_read(sample: str, isolation: str, tiers: TierSamples) -> None:
    one = tiers[sample]
    options = {"tier": str(tier_of(one)), "tierKeys": str(tiers.private_key), "isolation.level": isolation}
    for (name, of), records in one.read().items():
        if of == isolation:
            topic = name.rpartition("-")[0]
            rows = read(one.log_dir, subscribe=topic, **options)
            assert [row["offset"] for row in rows] == [record.offset for record in records]
            assert [row["timestamp"].timestamp() for row in rows] == [record.timestamp / 1000 for record in records]


def test_a_segment_that_cannot_be_read_is_an_error(tiers: TierSamples) -> None:
    one = tiers["aiven-encrypted"]
    options = {"path": str(one.log_dir), "tier": str(tier_of(one))}
    with pytest.raises(TierLacksSegments, match=r"is encrypted with the key 'key1'.* failOnDataLoss"):
        plan_read(parse_options(options))
    plan_read(parse_options({**options, "failOnDataLoss": "false"}))


def test_globs_and_streams_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="a glob cannot be joined"):
        parse_options({"path": f"{tmp_path}/*", "tier": str(tmp_path)})
    source = KafkaLogSource({"path": str(tmp_path), "tier": str(tmp_path)})
    with pytest.raises(InvalidConfig, match="read the tier as a batch"):
        source.streamReader(None)  # type: ignore[arg-type]


def test_the_workers_of_a_session_read_a_tier(spark: Any, tiers: TierSamples) -> None:
    register(spark)
    one = tiers[AIVEN[-1]]
    options = {"tier": str(tier_of(one)), "tierKeys": str(tiers.private_key), "subscribe": "transactions"}
    frame = spark.read.format("kafka-log").options(**options).load(str(one.log_dir))
    read = one.read()["transactions-0", "read_uncommitted"]
    assert sorted(row.offset for row in frame.select("offset").collect()) == [record.offset for record in read]
    alone = spark.read.format("kafka-log").options(**options).load()
    found = sorted(row.offset for row in alone.select("offset").collect())
    assert found == list(itertools.islice((record.offset for record in read), len(found)))
    assert found
