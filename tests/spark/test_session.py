from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import cleaner.spark
from cleaner.spark.errors import SparkUnavailable
from cleaner.spark.session import check_java


def fake_java(directory: Path, says: str, status: int = 0) -> Path:
    (directory / "bin").mkdir()
    java = directory / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho \"$@\" > '{java.with_name('asked')}'\necho '{says}' >&2\nexit {status}\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("says", "status", "cause"),
    [
        ('openjdk version "11.0.2" 2019-01-15', 0, "is version 11, Spark needs 17"),
        ('java version "1.8.0_202"', 0, "is version 8, Spark needs 17"),
        ("no JVM", 1, "does not run"),
        ("nothing", 0, "does not run"),
    ],
)
def test_a_java_that_spark_does_not_run_on_is_told(tmp_path: Path, says: str, status: int, cause: str) -> None:
    fake_java(tmp_path, says, status)
    with pytest.raises(SparkUnavailable, match=f"{cause}.*install a JDK 17 or newer"):
        check_java({"JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize("environment", [{"PATH": ""}, {"PATH": "/nowhere"}])
def test_no_java_is_told(environment: dict[str, str]) -> None:
    with pytest.raises(SparkUnavailable, match="no java in PATH, and JAVA_HOME is not set"):
        check_java(environment)


def test_a_newer_java_found_in_the_path_will_do(tmp_path: Path) -> None:
    java = fake_java(tmp_path, 'openjdk version "21.0.1"')
    check_java({"PATH": str(java.parent)})
    assert java.with_name("asked").read_text() == "-version\n"


@pytest.mark.parametrize("call", [cleaner.spark.open_session, lambda: cleaner.spark.register(None)])
@pytest.mark.parametrize("missing", ["pyspark.sql.datasource", "pyarrow"])
def test_a_package_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch, call: Any, missing: str) -> None:
    for name in (
        "cleaner.spark.table.source",
        "cleaner.arrow.schema",
        "cleaner.spark.table.options",
        "storage.scan.extents",
    ):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SparkUnavailable, match=r"is not installed; pip install '\.\[spark\]'"):
        call()


def test_a_session_is_quiet_pushes_no_filters_down_and_runs_this_python(spark: Any) -> None:
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sparkContext.pythonExec == sys.executable
