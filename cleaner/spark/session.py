"""A Spark session of our own: checked before it starts, and quiet."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socketserver import BaseServer
from tempfile import TemporaryFile
from threading import current_thread, main_thread
from typing import IO, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from cleaner.spark.errors import SparkUnavailable

JAVA_VERSION_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_PYTHON_ERROR: Final = re.compile(r"[\w.]*(?:Error|Exception): ")
_JAVA_ENDED: Final = re.compile(r'^Exception in thread "main" (.*)', re.MULTILINE)
_CAUSED_BY: Final = "Caused by: "
_STOPPED: Final = "Cannot call methods on a stopped SparkContext"
_MASTER: Final = re.compile(r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[.*\]|(spark|k8s)://.+|yarn")
_STDERR: Final = 2
_ANSWER_SECONDS_MAX: Final = 30
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_OURS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
}
_SHORT_LIVED: Final = (
    "spark.driver.extraJavaOptions",
    f"{_OURS['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
)
"""Options of a JVM that only moves bytes: it never gets back what the second compiler and a parallel collector cost."""
ERRORS: Final = (Py4JError, PySparkException, OSError)
"""What a call of Spark raises. The last one says that its JVM is gone."""


def start_session(master: str, config: Mapping[str, str]) -> SparkSession:
    """Start a session, as ``cleaner.spark.open_session`` describes. Raises: SparkUnavailable."""
    with _starting(master):
        builder = SparkSession.builder.appName("logcleaner").master(master)
        for key, value in (_OURS | dict(config)).items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def start_context(master: str) -> SparkContext:
    """Start a context that moves bytes between tasks, without Spark's SQL. Raises: SparkUnavailable."""
    with for_a_command(), _starting(master):
        conf = SparkConf().setAppName("logcleaner").setMaster(master).setAll([*_OURS.items(), _SHORT_LIVED])
        return SparkContext.getOrCreate(conf)


@contextmanager
def _starting(master: str) -> Iterator[None]:
    if not _MASTER.fullmatch(master):
        raise SparkUnavailable(
            f"{master} is no master", "name one: local[*], spark://HOST:PORT, k8s://HOST:PORT or yarn"
        )
    check_java(os.environ)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkUnavailable(f"{master}: {cause_of(error)}", "see that there is such a master") from error
    except OSError as error:
        raise SparkUnavailable(str(error), "see that TMPDIR has space, and that this user may write there") from error


@contextmanager
def started_on_demand(master: str) -> Iterator[Callable[[], SparkSession]]:
    """Yield a function that starts a session; at the end, stop what it started."""
    with ExitStack() as stack:

        def stop(session: SparkSession) -> None:
            with suppress(*ERRORS):  # its JVM may be gone: a job has told so
                session.stop()

        def start() -> SparkSession:
            with for_a_command():
                session = start_session(master, {})
            stack.callback(stop, session)
            return session

        yield start


@contextmanager
def for_a_command() -> Iterator[None]:
    """Keep stderr and ctrl-C from a JVM that starts now: what it says goes to a file that ends with it.

    Of each failure Spark logs the stacks of all threads that it met, some hundred lines. The error that reaches us says
    the same. Only a JVM that ends at once leaves no other word.

    Raises: SparkUnavailable of the ``with``, with the words of such a JVM; also if there is no place for the file.
    """
    with _scratch_file() as said:
        logging.getLogger().addHandler(logging.NullHandler())  # py4j logs the stack of an interrupted call there
        BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]  # pyspark tells so that a JVM is gone
        kept, on_interrupt = os.dup(_STDERR), signal.getsignal(signal.SIGINT)
        os.dup2(said.fileno(), _STDERR)
        try:
            yield
        except SparkUnavailable as error:
            said.seek(0)
            if found := _JAVA_ENDED.search(said.read().decode(errors="replace")):
                raise SparkUnavailable(found[1], error.remedy) from error
            raise
        finally:
            os.dup2(kept, _STDERR)
            os.close(kept)
            if current_thread() is main_thread():  # Spark's handler calls Java in the midst of another call
                signal.signal(signal.SIGINT, on_interrupt)


@contextmanager
def running_context(master: str) -> Iterator[SparkContext]:
    """Yield a context that ends with the ``with``. Raises: SparkUnavailable."""
    context = start_context(master)
    try:
        yield context
    except Exception:
        context.stop()
        raise
    context.stop()  # not behind a signal: it would wait for the call that the signal interrupted; the JVM ends with us


def _scratch_file() -> IO[bytes]:
    try:
        return TemporaryFile()
    except OSError as error:
        raise SparkUnavailable(error.strerror or str(error), "name a directory with space as TMPDIR") from error


def cause_of(error: BaseException) -> str:
    """Return the most telling line of Spark's text: Python's last error, Java's first cause, or the first line."""
    if _STOPPED in str(error):
        return "no master answered, or the master ended the application"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    of_java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    first_causes = [line.removeprefix(_CAUSED_BY) for line in lines if line.startswith(_CAUSED_BY)]
    of_python = [line for line in lines if _PYTHON_ERROR.match(line)]
    return (of_python[-1:] or first_causes[-1:] or of_java[:1] or lines[:1] or [type(error).__name__])[0]


def check_java(environment: Mapping[str, str]) -> None:
    """Check that the Java which Spark would start exists and is new enough.

    Args:
        environment: ``JAVA_HOME``, else ``PATH``, names the place of Java.

    Raises: SparkUnavailable.
    """
    remedy = f"install a JDK {JAVA_VERSION_MIN} or newer, or point JAVA_HOME at one"
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        raise SparkUnavailable("no java in PATH, and JAVA_HOME is not set", remedy)
    version = _version_of(java)
    if version is None:
        raise SparkUnavailable(f"{java} does not run", remedy)
    if version < JAVA_VERSION_MIN:
        raise SparkUnavailable(f"{java} is version {version}, Spark needs {JAVA_VERSION_MIN}", remedy)


def _version_of(java: str) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603  (the java that Spark itself would start)
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else None
