"""Kafka's jars for the tests, from Python and a JDK alone.

PySpark ships Ivy, and Ivy fetches from Maven Central. Which jars is not left to dependency resolution: a list
beside this module names each one with its SHA-256, and nothing is started that differs from the list. A jar that
several lists name is fetched once.

Not chosen: Maven (a fresh machine has none), and jars in the repository (40 MB a release).
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

NEWEST: Final = "4.4.0"
OLD: Final = "2.8.2"
"""The last that still writes and keeps the formats v0 and v1."""
WITH_TOOLS: Final = "4.3.1"
"""The newest release whose kafka-tools are on Maven Central, and whose kafka_2.13 has the ConfigCommand."""
MESSAGES: Final = frozenset(
    ("kafka-group-coordinator", "kafka-transaction-coordinator", "kafka-share-coordinator", "kafka-metadata")
)
"""Modules with the classes of Kafka's own messages."""
CHOSEN: Final = "LOGCLEANER_KAFKA"
JAVA_MAJOR_MIN: Final = 17
DOWNLOAD_SECONDS_MAX: Final = 900
DOWNLOAD_TRIES: Final = 4
PAUSE_SECONDS: Final = 10.0
OUTPUT_LINES_SHOWN: Final = 20


class KafkaJarsError(Exception):
    """Root of what can go wrong before a JVM with Kafka's classes starts."""


class KafkaUnavailable(KafkaJarsError):
    """This machine cannot run Kafka's classes; the reason is a sentence for the test summary."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WrongJar(KafkaJarsError):
    """A jar that is not the one the list names: a damaged download, or not the file it claims to be."""

    def __init__(self, path: Path, expected_sha256: str, found_sha256: str) -> None:
        super().__init__(path, expected_sha256, found_sha256)
        self.path, self.expected_sha256, self.found_sha256 = path, expected_sha256, found_sha256

    def __str__(self) -> str:
        return (
            f"{self.path.name}: sha256 {self.found_sha256}, the list says {self.expected_sha256}; "
            f"remove {self.path} and run the tests again"
        )


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a list: what Maven Central calls the artifact, and the bytes expected."""

    sha256: str
    organisation: str
    module: str
    revision: str
    file_name: str
    classifier: str = ""
    """``test`` for the classes of Kafka's own tests."""


def judging_version() -> str:
    """The Kafka that judges us: the newest, unless LOGCLEANER_KAFKA names another one that has a list.

    Raises:
        ValueError: it names one without a list.
    """
    version = os.environ.get(CHOSEN) or NEWEST
    if version not in (known := listed_versions()):
        raise ValueError(f"{CHOSEN}={version}: no list of its jars; there are lists of {', '.join(known)}")
    return version


def kafka_classpath(version: str) -> str:
    """A JVM class path with all of Kafka ``version``; what is missing is fetched into the user's cache.

    Args:
        version: one for which ``kafka-VERSION.jars.txt`` exists beside this module.

    Raises:
        KafkaUnavailable: no java, one older than 17, no Ivy, or the download failed.
        WrongJar: a jar differs from the list; names it.
    """
    return _classpath(pinned_jars(version))


def tiering_classpath(version: str) -> str:
    """Return a class path of a broker that tiers to a directory, by a class of Kafka's own tests.

    Of the releases here only 4.3.1 has that class on Maven Central, so a newer broker loads it from there, too. What
    the class needs and the newer release has moved elsewhere comes from 4.3.1's clients, last on the path.

    Raises:
        KafkaUnavailable, WrongJar: as ``kafka_classpath``.
    """
    clients = [jar for jar in pinned_jars(WITH_TOOLS) if jar.module == "kafka-clients"]
    return os.pathsep.join((kafka_classpath(version), _classpath((*_listed("tiered-storage.jars.txt"), *clients))))


def streams_classpath(version: str) -> str:
    """Return a class path of clients with Kafka Streams of a release, without RocksDB: stores lie in memory.

    Raises:
        KafkaUnavailable, WrongJar: as ``kafka_classpath``.
    """
    streams = [jar for jar in _listed("streams.jars.txt") if jar.revision == version]
    if not streams:
        raise KafkaUnavailable(f"streams.jars.txt has no kafka-streams {version}")
    return os.pathsep.join((kafka_classpath(version), _classpath(streams)))


def _classpath(jars: Sequence[Jar]) -> str:
    java()
    directory = cache_dir() / "jars"
    with _locked(directory.with_name("jars.lock")):
        directory.mkdir(exist_ok=True)
        if missing := [jar for jar in jars if not (directory / jar.file_name).exists()]:
            fetch(missing, directory)
    for jar in jars:
        _verify(jar, directory)
    return os.pathsep.join(str(directory / jar.file_name) for jar in jars)


def tools_classpath(version: str) -> str:
    """A class path that has Kafka's command line tools, too.

    Where the release has none on Maven Central, they and what they read files with are those of ``WITH_TOOLS``. The
    classes of Kafka's own messages, and what these have moved to elsewhere, are always those of ``version``: the
    tools show what it writes.

    Raises:
        KafkaUnavailable, WrongJar: as ``kafka_classpath``.
    """
    own = kafka_classpath(version)
    if any((jar.module, jar.revision) == ("kafka-tools", version) for jar in pinned_jars(version)):
        return own
    messages = {jar.file_name for jar in pinned_jars(version) if jar.module in MESSAGES}
    in_front = [path for path in own.split(os.pathsep) if Path(path).name in messages]
    return os.pathsep.join((*in_front, kafka_classpath(WITH_TOOLS), own))


def listed_versions() -> list[str]:
    """The versions that have a list, oldest first."""
    lists = Path(__file__).parent.glob("kafka-*.jars.txt")
    versions = (path.name.removeprefix("kafka-").removesuffix(".jars.txt") for path in lists)
    return sorted(versions, key=release)


def release(version: str) -> tuple[int, ...]:
    """Its numbers, which can be compared."""
    return tuple(int(number) for number in version.split("."))


def pinned_jars(version: str) -> tuple[Jar, ...]:
    """The jars of one Kafka version, in the order of its list."""
    return _listed(f"kafka-{version}.jars.txt")


def _listed(name: str) -> tuple[Jar, ...]:
    lines = Path(__file__).with_name(name).read_text(encoding="ascii").splitlines()
    return tuple(_parse_line(line) for line in lines)


def cache_dir() -> Path:
    """Where jars and compiled classes stay from one test run to the next; created when missing."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = root / "logcleaner-tests"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@cache
def java() -> Path:
    """The ``java`` of JAVA_HOME, else of PATH.

    Raises:
        KafkaUnavailable: there is none, or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if found is None:
        raise KafkaUnavailable(f"no java in {home or 'PATH'}; install a JDK {JAVA_MAJOR_MIN} or newer")
    if (major := _java_major(found)) < JAVA_MAJOR_MIN:
        raise KafkaUnavailable(f"{found} is Java {major}; Kafka 4 needs {JAVA_MAJOR_MIN} or newer")
    return Path(found)


def _java_major(executable: str) -> int:
    said = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _parse_line(line: str) -> Jar:
    sha256, artifact, file_name = line.split()
    organisation, module, revision, *classifier = artifact.split(":")
    return Jar(sha256, organisation, module, revision, file_name, *classifier)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Parallel test processes wait here for the one that downloads."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def fetch(jars: Sequence[Jar], directory: Path) -> None:
    """Download beside the cache; a jar gets its name there only when all of them are verified."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="fetching-") as scratch:
        fetched = Path(scratch, "jars")
        _run_ivy(jars, Path(scratch), fetched)
        for jar in jars:
            _verify(jar, fetched)
        for jar in jars:
            (fetched / jar.file_name).rename(directory / jar.file_name)


def _run_ivy(jars: Sequence[Jar], scratch: Path, destination: Path) -> None:
    description = scratch / "ivy.xml"
    description.write_text(_ivy_xml(jars), encoding="utf-8")
    command = [str(java()), "-jar", str(_ivy_jar()), "-ivy", str(description), "-cache", str(scratch / "ivy")]
    command += ["-types", "jar", "bundle", "-retrieve", f"{destination}/[artifact]-[revision](-[classifier]).[ext]"]
    for try_number in range(1, DOWNLOAD_TRIES + 1):  # Ivy keeps what came, and asks for the rest
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_SECONDS_MAX)
        except subprocess.TimeoutExpired as expired:
            raise KafkaUnavailable(f"no jars from Maven Central within {DOWNLOAD_SECONDS_MAX} s") from expired
        missing = [jar.file_name for jar in jars if not (destination / jar.file_name).is_file()]
        if not missing:
            return
        if try_number < DOWNLOAD_TRIES:
            time.sleep(PAUSE_SECONDS)
    tail = "\n".join((ran.stdout + ran.stderr).splitlines()[-OUTPUT_LINES_SHOWN:])
    raise KafkaUnavailable(f"Ivy did not fetch {len(missing)} jars, {missing[0]} first:\n{tail}")


def _ivy_jar() -> Path:
    """Ivy as PySpark ships it; PySpark itself is only looked up, never imported."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise KafkaUnavailable("pyspark, whose Ivy fetches Kafka's jars, is not installed")
    jars = sorted(Path(found.origin).parent.glob("jars/ivy-*.jar"))
    if not jars:
        raise KafkaUnavailable(f"no jars/ivy-*.jar in {Path(found.origin).parent}")
    return jars[-1]


def _ivy_xml(jars: Sequence[Jar]) -> str:
    """Each jar by name and alone: the list is complete, Ivy resolves nothing."""
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.module)} "
        f'rev={quoteattr(jar.revision)} conf="default->default" transitive="false">{_artifact(jar)}</dependency>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="logcleaner" module="tests"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _artifact(jar: Jar) -> str:
    if not jar.classifier:
        return ""
    return f'<artifact name={quoteattr(jar.module)} type="jar" m:classifier={quoteattr(jar.classifier)}/>'


def _verify(jar: Jar, directory: Path) -> None:
    path = directory / jar.file_name
    if not path.is_file():
        raise WrongJar(path, jar.sha256, "of no file")
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != jar.sha256:
        raise WrongJar(path, jar.sha256, found)
