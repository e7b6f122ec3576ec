"""Log dirs in a bucket as tables: the rows are those of the same log dirs here, and no secret is shown."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier
from typing import Any

import obstore
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store
from pyspark.errors import PySparkException

from cleaner.report.findings import TABLES
from cleaner.spark import read_logs, register
from cleaner.spark.table.options import parse_options, parse_sink_options, s3_of
from cleaner.spark.table.planning import plan_read
from storage.scan.extents import Extent
from storage.stores import opening
from storage.stores.paths import StoredPath
from tests.conftest import Samples
from tests.spark.test_source import assert_is_short
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, proxying
from tests.storage.stores.servers import ENVIRONMENT, KEYS, configuration, environment, serving, upload, writer

WHOLE = "orders,payments,ledger,single,empty"
"""Topics of the new archive of which every record is there."""
SECRET = "a-secret-that-nobody-shows"


@pytest.fixture(scope="module")
def endpoint(samples: Samples, old_samples: Samples) -> Iterator[str]:
    with serving() as url:
        store = writer(url, "tables")
        upload(samples.root / "before", store, "new")
        upload(old_samples.root / "before", store, "old")
        yield url


@pytest.fixture(scope="module")
def table(spark: Any, endpoint: str) -> Any:
    """A session that knows the bucket by Hadoop's keys alone."""
    assert not [name for name in ENVIRONMENT if name in os.environ]
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set("fs.s3a.access.key", KEYS["access_key_id"])
    hadoop.set("fs.s3a.secret.key", SECRET)
    hadoop.set("fs.s3a.endpoint", endpoint.removeprefix("http://"))
    hadoop.set("fs.s3a.connection.ssl.enabled", "false")
    hadoop.set("fs.s3a.endpoint.region", "us-east-1")
    register(spark)
    return spark


def rows(spark: Any, path: str, **options: str) -> list[Any]:
    read = spark.read.format("kafka-log").option("includeMetadata", "true").options(**options)
    return sorted(read.load(path).drop("segment").collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_rows_are_those_of_the_log_dir_here(table: Any, samples: Samples, isolation: str) -> None:
    options = {"subscribe": WHOLE, "isolation.level": isolation}
    here = rows(table, str(samples.root / "before"), **options)
    assert rows(table, "s3a://tables/new", **options) == here
    assert len(here) > 10_000


def test_small_tasks_and_times_choose_the_same_rows(table: Any, samples: Samples) -> None:
    options = {"subscribe": "orders", "maxPartitionBytes": "100000", "startingTimestamp": "1794982000000"}
    here = rows(table, str(samples.root / "before"), **options)
    assert rows(table, "s3://tables/new", **options) == here
    assert 0 < len(here) < 10_000


def test_read_logs_reads_a_bucket_as_it_reads_a_log_dir_here(table: Any, samples: Samples) -> None:
    asked = {"columns": ["key", "value", "offset"], "where": "topic = 'orders' and offset >= 100"}
    there, here = (read_logs(table, path, **asked) for path in ("s3a://tables/new", samples.root / "before"))
    assert sorted(map(str, there.collect())) == sorted(map(str, here.collect()))
    assert here.count() > 1000


def test_old_formats_and_globs(table: Any, old_samples: Samples) -> None:
    here = rows(table, str(old_samples.root / "before"))
    assert rows(table, "s3://tables/o*d") == here
    assert here


def test_partitions_are_planned_side_by_side(endpoint: str, samples: Samples) -> None:
    together, seen = Barrier(4), list[str]()

    def wait_for_others(_method: str, path: str) -> Fault:
        if path.endswith(".log"):
            seen.append(path)
            if len(seen) <= together.parties:
                together.wait(30)
        return Fault.NONE

    here = plan_read(parse_options({"path": str(samples.root / "before")}))
    with proxying(endpoint) as proxy:
        forget_stores()
        proxy.fault = wait_for_others
        opening.configure("s3", configuration(proxy.url))
        there = plan_read(parse_options({"path": "s3://tables/new"}))
    forget_stores()
    assert len(set(seen)) > together.parties
    assert places_in(there) == places_in(here)


def places_in(planned: list[tuple[Extent, ...]]) -> list[tuple[Any, ...]]:
    return [(one.topic_partition, one.path.name, one.offsets, one.start, one.end) for some in planned for one in some]


@pytest.mark.parametrize("is_called", [False, True])
def test_no_secret_is_shown(table: Any, capfd: pytest.CaptureFixture[str], is_called: bool) -> None:
    source = table.read.format("kafka-log").option("subscribe", "orders")
    called = read_logs(table, "s3://tables/new", where="topic = 'orders'")
    frame = called if is_called else source.load("s3://tables/new")
    frame.explain("extended")
    frame.createOrReplaceTempView("orders")
    table.sql("describe extended orders").show(truncate=False)
    assert frame.where("offset < 10").count() == 10
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert SECRET not in str(frame._jdf.queryExecution().toString())


def test_wrong_place_is_told(table: Any) -> None:
    with pytest.raises(Exception, match="s3://tables/nothing: does not exist"):
        table.read.format("kafka-log").load("s3://tables/nothing").count()
    with pytest.raises(Exception, match="s3://tables/z*: matches no directory".replace("*", r"\*")):
        table.read.format("kafka-log").load("s3://tables/z*").count()
    with pytest.raises(PySparkException) as raised:
        table.read.format("kafka-log").load("s3://no-such-bucket/x").count()
    assert_is_short(raised.value, "NoSuchBucket: s3://no-such-bucket: no such bucket; check its name, and the endpoint")


@pytest.mark.parametrize(
    ("said", "config"),
    [
        ({}, {}),
        ({"access.key": "a", "secret.key": "b", "session.token": "c"},
         {"access_key_id": "a", "secret_access_key": "b", "session_token": "c"}),
        ({"endpoint": "https://store:9000"}, {"endpoint": "https://store:9000"}),
        ({"endpoint": "store:9000", "connection.ssl.enabled": "false"}, {"endpoint": "http://store:9000"}),
        ({"endpoint": "store:9000"}, {"endpoint": "https://store:9000"}),
        ({"endpoint": "s3.amazonaws.com", "endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        ({"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
         {"skip_signature": "true"}),
    ],
)  # fmt: skip
def test_hadoops_keys_mean_what_they_mean_there(said: dict[str, str], config: dict[str, str]) -> None:
    assert s3_of({f"fs.s3a.{key}": value for key, value in said.items()}.get) == config


def test_place_of_a_write_is_a_path_or_a_url(tmp_path: Path) -> None:
    assert parse_sink_options({"path": "s3a://tables/new"}).log_dir == StoredPath("s3://tables/new")
    assert parse_sink_options({"path": f"file://{tmp_path}"}).log_dir == tmp_path


@pytest.mark.slow
def test_analysis_of_a_bucket_is_that_of_the_log_dir_here(endpoint: str, samples: Samples) -> None:
    """Another process than that of the other tests: its Spark workers have the credentials of the environment."""
    told = []
    for place in (str(samples.root / "before"), "s3a://tables/new"):
        command = [sys.executable, "-m", "cleaner", "analyze", "--json", "--topic", "orders", "payments", "--log-dir"]
        more = ["--output", "s3://tables/found"] if "://" in place else []
        done = subprocess.run([*command, place, *more], capture_output=True, check=False, timeout=300,
                              env=os.environ | environment(endpoint))  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        told.append(json.loads(done.stdout.replace(place.replace("s3a", "s3").encode(), b"HERE")))
    for document in told:
        del document["now"], document["retention"]  # it goes by the time of the run
    assert without_disk(told[1]) == without_disk(told[0])
    found = S3Store("tables", config=configuration(endpoint), client_options={"allow_http": True})  # type: ignore[call-overload]
    written = [meta["path"] for page in obstore.list(found, "found") for meta in page]
    assert sorted({path.split("/")[1] for path in written}) == sorted(TABLES)
    sizes = next(path for path in written if path.startswith("found/sizes/"))
    assert pq.read_table(io.BytesIO(bytes(obstore.get(found, sizes).bytes()))).num_rows >= 2


def without_disk(value: Any) -> Any:
    """Return a document without figures of a disk, which a bucket has not."""
    if isinstance(value, dict):
        return {key: without_disk(one) for key, one in value.items() if "disk" not in key and key != "mtime_ms"}
    return [without_disk(one) for one in value] if isinstance(value, list) else value
