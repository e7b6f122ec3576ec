"""Paths in stores: what a user writes, what names mean, and that no call takes one for a local path."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from storage.directory import is_stored
from storage.stores.errors import NotOnThisMachine, WrongUrl
from storage.stores.paths import StoredPath, located


@pytest.mark.parametrize(
    ("given", "text", "place", "key"),
    [
        ("s3://buck/a/b", "s3://buck/a/b", "s3://buck", "a/b"),
        ("s3a://buck/a/", "s3://buck/a", "s3://buck", "a"),
        ("S3A://buck", "s3://buck", "s3://buck", ""),
        ("s3://buck/", "s3://buck", "s3://buck", ""),
        ("gs://buck/a b/c%20d", "gs://buck/a b/c%20d", "gs://buck", "a b/c%20d"),
        ("abfss://box@acc.dfs.core.windows.net/d", "abfs://box@acc.dfs.core.windows.net/d",
         "abfs://box@acc.dfs.core.windows.net", "d"),
        ("hdfs://name:9000/kafka", "hdfs://name:9000/kafka", "hdfs://name:9000", "kafka"),
    ],
)  # fmt: skip
def test_url_names_a_place_and_a_key(given: str, text: str, place: str, key: str) -> None:
    found = located(given)
    assert isinstance(found, StoredPath)
    assert (str(found), found.place, found.key) == (text, place, key)


@pytest.mark.parametrize(
    ("given", "path"),
    [("/a//b", "/a/b"), ("a", "a"), ("file:///a%20b/c", "/a b/c"), ("file://localhost/a", "/a"), ("s3:/b", "s3:/b")],
)
def test_path_of_this_machine_stays_one(given: str, path: str) -> None:
    found = located(given)
    assert not is_stored(found)
    assert found == Path(path)


@pytest.mark.parametrize(
    "given",
    ["s3://", "s3:///a", "s3://buck//a", "s3://buck/a//", "s3://buck/./a", "s3://buck/../a", "http://host/a", "x://y",
     "file://host/a", "file:///a?b", "file://"],
)  # fmt: skip
def test_other_url_is_refused_in_one_line(given: str) -> None:
    with pytest.raises(WrongUrl) as refused:
        located(given)
    assert str(refused.value).startswith(given)
    assert "\n" not in str(refused.value)


def test_names_below_a_path_are_in_its_store() -> None:
    path = located("s3://buck/logs")
    log = path / "orders-0" / "0.log"
    assert str(log) == "s3://buck/logs/orders-0/0.log"
    assert str(log.with_suffix(".index")) == "s3://buck/logs/orders-0/0.index"
    assert str(log.with_name("x")) == "s3://buck/logs/orders-0/x"
    assert log.parent.parent == path
    assert all(isinstance(one, StoredPath) for one in (log, log.parent, log.with_name("x"), path.absolute()))
    assert path.resolve() is path
    assert pickle.loads(pickle.dumps(log)) == log
    assert str(pickle.loads(pickle.dumps(log))) == str(log)


def test_no_call_of_the_system_takes_it_for_a_path_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "buck").mkdir(parents=True)
    path = located("s3://buck")
    for call in (os.stat, os.listdir, open, os.path.exists, os.rmdir):
        with pytest.raises(NotOnThisMachine, match="s3://buck: lies in a store"):
            call(path)  # type: ignore[operator]
    with pytest.raises(NotOnThisMachine):
        path.joinpath("x").mkdir()
