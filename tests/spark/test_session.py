from __future__ import annotations

import signal
import subprocess
import sys
from errno import ENOENT
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import cleaner.spark
from cleaner.spark.errors import SparkUnavailable
from cleaner.spark.session import check_java, for_a_command, running_context, start_context


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


@pytest.mark.parametrize("master", ["nonsense", "local[x]", "local[]", "http://head:7077", "spark://", ""])
def test_what_is_no_master_is_told_before_java_starts(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(SparkUnavailable, match="is no master; name one: "):
        start_context(master)


def test_what_java_says_is_kept_from_a_user(capfd: pytest.CaptureFixture[str]) -> None:
    with for_a_command():
        subprocess.run(["/bin/sh", "-c", "echo many lines >&2"], check=True)
    print("our own", file=sys.stderr)
    assert capfd.readouterr().err == "our own\n"


def test_a_jvm_that_ends_at_once_is_told_by_its_exception(capfd: pytest.CaptureFixture[str]) -> None:
    def start() -> None:
        said = 'WARNING: x\nException in thread "main" java.lang.Exception: no HADOOP_CONF_DIR\n at y'
        subprocess.run(["/bin/sh", "-c", f"echo '{said}' >&2"], check=True)
        raise SparkUnavailable("yarn: [JAVA_GATEWAY_EXITED]", "see to it")

    with pytest.raises(SparkUnavailable) as told, for_a_command():
        start()
    assert str(told.value) == "Spark cannot be started: java.lang.Exception: no HADOOP_CONF_DIR; see to it"
    assert capfd.readouterr().err == ""


def test_no_place_for_scratch_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise FileNotFoundError(ENOENT, "No usable temporary directory found")

    monkeypatch.setattr("cleaner.spark.session.TemporaryFile", fail)
    with pytest.raises(SparkUnavailable, match="name a directory with space as TMPDIR"), for_a_command():
        pytest.fail("a JVM starts")


def test_the_stack_of_an_interrupted_call_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    ends = "import logging; from cleaner.spark.session import for_a_command\nwith for_a_command(): pass\n"
    subprocess.run([sys.executable, "-c", f"{ends}logging.exception('KeyboardInterrupt')"], check=True)
    assert capfd.readouterr().err == ""


def test_ctrl_c_stays_with_the_command() -> None:
    before = signal.getsignal(signal.SIGINT)
    with for_a_command():
        signal.signal(signal.SIGINT, lambda *_: None)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("error", "stops"), [(ValueError, 1), (KeyboardInterrupt, 0)])
def test_a_context_is_stopped_unless_a_call_of_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException], stops: int
) -> None:
    context = Mock()
    monkeypatch.setattr("cleaner.spark.session.start_context", lambda _: context)
    with pytest.raises(error), running_context("local"):
        raise error
    assert context.stop.call_count == stops
