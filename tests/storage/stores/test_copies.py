"""``clean --output s3://…``: the bytes of a local copy, or no copy, whatever happens between the steps."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

import obstore
import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.filesystem import Purpose
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from storage.stores import opening
from storage.stores.paths import StoredPath, look_anew
from storage.uploads import Uploads
from tests.cleaner.cli.test_erase import keys
from tests.conftest import Samples
from tests.sampled import some
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import IS_OTHER, KIND, SCHEME, configuration, environment, unfinished, writer
from tests.storage.stores.test_faults import faulty

NOW = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
LARGE_BYTES = 20 << 20
LARGE = "archive.bin"
PASSING = [Fault.RESET, Fault.LOST, Fault.SLOW_DOWN, Fault.FAILED, Fault.DELAY]
SEEDS = 30


@pytest.fixture(scope="session")
def logs(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir with a file that goes to a bucket in parts."""
    return with_large_file(samples.copy("before", tmp_path_factory.mktemp("logs") / "logs"))


@pytest.fixture(scope="session")
def few_logs(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with two partitions."""
    place = tmp_path_factory.mktemp("logs") / "few"
    return with_large_file(samples.copy("before", place, ["orders-0", "payments-0"]))


def with_large_file(log_dir: Path) -> Path:
    (log_dir / LARGE).write_bytes(random.Random(1).randbytes(LARGE_BYTES))
    return log_dir


class Destination:
    """A bucket that copies are written to."""

    def __init__(self, url: str, name: str) -> None:
        self.store = writer(url, name)
        self.url, self.name = url, name

    def files(self, prefix: str) -> dict[str, bytes]:
        found = [meta["path"] for page in obstore.list(self.store, prefix) for meta in page]
        return {path.removeprefix(f"{prefix}/"): bytes(obstore.get(self.store, path).bytes()) for path in found}

    def unfinished(self) -> list[str]:
        """Return the files of which only parts are there."""
        return unfinished(self.url, self.name)


@pytest.fixture
def to(server: str, through: Proxy) -> Destination:
    return Destination(server, f"copies-{uuid4().hex}")


def copied(log_dir: Path | str, output: Path | str, *more: str) -> int:
    command = ["clean", "--yes", "--kafka-defaults", "--now", NOW]
    return main([*command, *more, "--log-dir", str(log_dir), "--output", str(output)])


def local_files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def differing(here: dict[str, bytes], there: dict[str, bytes]) -> list[str]:
    """Return the names of files that differ; of the manifests, only what they say of a place may."""
    return [name for name in here.keys() | there.keys() if told(name, here) != told(name, there)]


def told(name: str, files: dict[str, bytes]) -> Any:
    data = files.get(name)
    return {**json.loads(data), "original": ""} if data and name == MANIFEST_FILE else data


def test_copy_in_a_bucket_has_the_bytes_of_a_local_copy(
    logs: Path, to: Destination, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = [copied(logs, tmp_path / "copy", "--threads", "2"), copied(logs, f"{SCHEME}://{to.name}/a/copy")]
    assert statuses[0] == statuses[1]
    here, there = local_files(tmp_path / "copy"), to.files("a/copy")
    assert differing(here, there) == []
    assert there[LARGE] == (logs / LARGE).read_bytes()
    assert len(there) > 50
    assert INCOMPLETE_FILE not in there
    assert to.unfinished() == []
    assert f"{SCHEME}://{to.name}/a/copy: the copy is complete, with its manifest" in capsys.readouterr().out
    assert main(["verify", f"{SCHEME}://{to.name}/a/copy"]) == main(["verify", str(tmp_path / "copy")])
    assert main(["diff", str(logs), f"{SCHEME}://{to.name}/a/copy"]) == main(
        ["diff", str(logs), str(tmp_path / "copy")]
    )
    obstore.put(to.store, "a/copy/meta.properties", b"# other\n")
    look_anew([StoredPath(f"{SCHEME}://{to.name}/a")])
    capsys.readouterr()
    assert main(["diff", str(logs), f"{SCHEME}://{to.name}/a/copy"]) == ExitStatus.DAMAGED
    assert "meta.properties: has 8 bytes" in capsys.readouterr().out


def test_an_erased_copy_in_a_bucket_has_the_bytes_of_a_local_one(
    few_logs: Path, to: Destination, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = sorted(key.hex() for key in keys(shutil.copytree(few_logs, tmp_path / "opened")) if key)
    words = (
        "erase",
        known[0],
        known[-1],
        "--encoding",
        "hex",
        "--topic",
        "*",
        "--yes",
        "--assume-committed",
        "--log-dir",
        str(few_logs),
    )
    place, certificate = f"{SCHEME}://{to.name}/erased", tmp_path / "cert.json"
    assert main([*words, "--output", str(tmp_path / "copy")]) == ExitStatus.DONE
    assert main([*words, "--output", place, "--certificate", str(certificate)]) == ExitStatus.DONE
    here, there = local_files(tmp_path / "copy"), to.files("erased")
    assert [name for name in differing(here, there) if name not in (MANIFEST_FILE, ".logcleaner-journal")] == []
    assert ".logcleaner-journal" in there
    found = json.loads(certificate.read_bytes())
    assert (found["kind"], found["log_dirs"][0]["path"]) == ("copy", place)
    assert found["not_searched"] == []
    capsys.readouterr()
    assert main(["erase", "--check", str(certificate)]) == ExitStatus.DONE
    certificate.unlink()
    assert main([*words, "--output", place, "--certificate", str(certificate)]) == ExitStatus.DONE
    again = json.loads(certificate.read_bytes())
    for one, other in zip(found["partitions"], again["partitions"], strict=True):
        assert [(f["before"], f["after"]) for f in other["files"]] == [(f["before"], f["after"]) for f in one["files"]]
    assert "an earlier run finished the copy" in " ".join(capsys.readouterr().out.split())


def lacking(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, dict[str, str]]:
    """Return the exit status of a check, and what it says that the copy lacks: path -> harm."""
    capsys.readouterr()
    forget_stores()
    status = main([*command, "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return status, {one["path"]: one["harm"] for one in findings if one["code"] == "COPY_LACKS"}


def test_copy_in_a_bucket_that_lost_files_is_damaged(
    few_logs: Path, to: Destination, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(to.url).items():
        monkeypatch.setenv(name, value)
    place = f"{SCHEME}://{to.name}/copy"
    copied(few_logs, place)
    names = sorted(to.files("copy"))
    gone = next(name for name in names if name.startswith("orders-0/") and name.endswith(".log"))
    obstore.delete(to.store, f"copy/{gone}")
    assert lacking(capsys, "verify", place) == (ExitStatus.DAMAGED, {f"{place}/{gone}": "data_lost"})
    assert lacking(capsys, "doctor", place) == (ExitStatus.DAMAGED, {f"{place}/{gone}": "data_lost"})
    for name in names:
        if name.startswith("payments-0/"):
            obstore.delete(to.store, f"copy/{name}")
    obstore.put(to.store, "copy/meta.properties", b"#")
    lost = {
        f"{place}/{gone}": "data_lost",
        f"{place}/payments-0": "data_lost",
        f"{place}/meta.properties": "wrong_answer",
    }
    assert lacking(capsys, "verify", place) == (ExitStatus.DAMAGED, lost)
    assert lacking(capsys, "doctor", place) == (ExitStatus.DAMAGED, lost)
    assert main(["topics", place]) == ExitStatus.FAILED
    said = " ".join("".join(capsys.readouterr()).split())
    assert f"{place}/{gone}: is not here, and the manifest has" in said
    obstore.put(to.store, "copy/recovery-point-offset-checkpoint", b"0\n1\norders 0 1\n")
    assert lacking(capsys, "verify", place)[1] == {f"{place}/{MANIFEST_FILE}": "note"}  # as a broker changes it


def test_whole_bucket_can_become_a_copy(few_logs: Path, to: Destination, tmp_path: Path) -> None:
    assert copied(few_logs, f"{SCHEME}://{to.name}") == copied(few_logs, tmp_path / "copy") == ExitStatus.DONE
    assert differing(local_files(tmp_path / "copy"), to.files("")) == []
    assert copied(few_logs, f"{SCHEME}://{to.name}") == ExitStatus.USAGE


def test_log_dir_in_a_bucket_is_copied_as_the_same_one_here(
    local: str, bucket: str, to: Destination, tmp_path: Path
) -> None:
    shutil.copytree(local, tmp_path / "local")  # it gets a .lock
    statuses = {
        copied(tmp_path / "local", tmp_path / "here"),
        copied(f"{bucket}/new", tmp_path / "there"),
        copied(f"{bucket}/new", f"{SCHEME}://{to.name}/copy"),
    }
    assert len(statuses) == 1
    here = local_files(tmp_path / "here")
    assert len(here) > 50
    assert differing(here, local_files(tmp_path / "there")) == []
    assert differing(here, to.files("copy")) == []


def test_partition_that_fails_is_copied_as_it_is_as_in_a_copy_here(
    demo: Path, to: Destination, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first segments were written when the damage is met: they go again."""
    damaged = Path(shutil.copytree(demo, tmp_path / "damaged"))
    log = sorted((damaged / "orders-0").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    outputs = [tmp_path / "copy", f"{SCHEME}://{to.name}/copy"]
    statuses = {copied(damaged, output, "--force-compaction") for output in outputs}
    assert statuses == {ExitStatus.FAILED}, capsys.readouterr().err
    assert differing(local_files(tmp_path / "copy"), to.files("copy")) == []


@pytest.mark.parametrize(
    ("lies_there", "line"),
    [
        ([f"copy/{MANIFEST_FILE}"], "holds a finished log dir already; name another directory, or remove this one"),
        ([f"copy/{INCOMPLETE_FILE}"], "holds an incomplete log dir: a copy or a write of Spark was interrupted"),
        (["copy/orders-0/0.log"], "is not empty; name a new or an empty one"),
        (["copy"], "is no directory; name a new or an empty one"),
        (["copy/older/orders-0/0.log"], "is not empty; name a new or an empty one"),
    ],
)
def test_place_with_something_in_it_is_refused(
    few_logs: Path, to: Destination, lies_there: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in lies_there:
        obstore.put(to.store, name, b"")
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert f"logcleaner: {SCHEME}://{to.name}/copy: {line}" in err
    assert out == ""
    assert [meta["path"] for page in obstore.list(to.store) for meta in page] == lies_there


@pytest.mark.parametrize("mark", [MANIFEST_FILE, INCOMPLETE_FILE])
@pytest.mark.parametrize("above", ["", "/copy"])
def test_place_within_another_copy_is_refused(
    few_logs: Path, to: Destination, mark: str, above: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lies_there = f"{above}/{mark}".removeprefix("/")
    obstore.put(to.store, lies_there, b"")
    root = f"{SCHEME}://{to.name}"
    assert copied(few_logs, f"{root}/copy/a/b") == ExitStatus.USAGE
    assert f"{root}/copy/a/b: lies in {root}{above}, which holds " in capsys.readouterr().err
    assert [meta["path"] for page in obstore.list(to.store) for meta in page] == [lies_there]


def test_copy_into_its_own_log_dir_is_refused(bucket: str, through: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    assert copied(f"{bucket}/new", f"{bucket}/new/copy") == ExitStatus.USAGE
    assert f"lies in the log dir {SCHEME}://archives/new; name a directory outside it" in capsys.readouterr().err


def test_bucket_that_is_not_there_is_told(few_logs: Path, through: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    assert copied(few_logs, f"{SCHEME}://no-such-bucket/copy") == ExitStatus.USAGE
    assert f"{SCHEME}://no-such-bucket: no such bucket; check its name" in capsys.readouterr().err


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("at", [KIND.part.format(2), "orders-0/", "payments-0/"])
def test_interrupted_copy_is_none(
    few_logs: Path,
    to: Destination,
    through: Proxy,
    signal_: signal.Signals,
    at: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sent = []

    def interrupted(method: str, path: str) -> Fault:
        if method == "PUT" and at in path and not sent:
            sent.append(path)
            os.kill(os.getpid(), signal_)
        return Fault.NONE

    through.fault = interrupted
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == 128 + signal_
    assert sent
    assert_is_no_copy(to, few_logs, capsys)


def test_small_files_are_sent_side_by_side(few_logs: Path, to: Destination, through: Proxy) -> None:
    another, came, met = Event(), list[str](), list[bool]()

    def meeting(method: str, path: str) -> Fault:
        if method == "PUT" and "orders-0/" in path:
            came.append(path)
            if len(came) == 1:
                met.append(another.wait(10))
            another.set()
        return Fault.NONE

    through.fault = meeting
    copied(few_logs, f"{SCHEME}://{to.name}/copy")
    assert met == [True]


def test_who_looks_at_a_file_that_is_on_its_way_waits_for_it(to: Destination, through: Proxy) -> None:
    through.fault = lambda method, _path: Fault.DELAY if method == "PUT" else Fault.NONE
    fs, place = Uploads(at_once=4), StoredPath(f"{SCHEME}://{to.name}/d")
    fs.make_dir(place, place, Purpose.COPY)
    for name in ("read", "replaced", "removed", "seen"):
        with fs.create(place / name, place, Purpose.COPY) as file:
            file.write(b"before")
            file.fsync()
    assert (place / "read").read_bytes() == b"before"
    fs.replace_file(place / "replaced", b"behind", Purpose.COPY)
    fs.unlink(place / "removed", Purpose.COPY)
    assert (place / "seen").exists()
    assert "seen" in to.files("d")
    fs.settle(place, Purpose.COPY)
    assert to.files("d") == {"read": b"before", "replaced": b"behind", "seen": b"before"}


def test_file_that_fails_on_its_way_fails_the_copy(
    few_logs: Path, to: Destination, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    def denied(method: str, path: str) -> Fault:
        return Fault.DENIED if method == "PUT" and path.endswith("orders-0/partition.metadata") else Fault.NONE

    through.fault = denied
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == ExitStatus.FAILED
    assert "orders-0/partition.metadata: the store forbids it: 403" in capsys.readouterr().err
    through.fault = lambda _method, _path: Fault.NONE
    assert_is_no_copy(to, few_logs, capsys)


def assert_is_no_copy(to: Destination, few_logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = to.files("copy")
    assert MANIFEST_FILE not in there
    assert INCOMPLETE_FILE in there
    assert to.unfinished() == []
    capsys.readouterr()
    forget_stores()
    opening.configure(SCHEME, configuration(to.url))
    for command in ("verify", "doctor", "topics --log-dir", "prove-erased k --log-dir"):
        assert main([*command.split(), f"{SCHEME}://{to.name}/copy"]) == ExitStatus.FAILED
        assert "copy: an incomplete log dir: a copy or a write of Spark was interrupted" in capsys.readouterr().err
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == ExitStatus.USAGE
    assert "holds an incomplete log dir" in capsys.readouterr().err
    status = main(["diff", str(few_logs), f"{SCHEME}://{to.name}/copy"])
    told = "".join(capsys.readouterr())
    is_told = status == ExitStatus.FAILED and "an incomplete log dir" in told
    assert is_told or (status == ExitStatus.USAGE and "holds no Kafka file and no partition directory" in told)


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (Fault.SLOW_DOWN, ExitStatus.NOT_YET, "cannot be written now: the store answers 503 SlowDown; try again later"),
        (Fault.RESET, ExitStatus.NOT_YET, "cannot be written now: error sending request to http://127.0.0.1:"),
        (Fault.DENIED, ExitStatus.FAILED, "the store forbids it: 403 AccessDenied; check the credentials, and what"),
        (Fault.EXPIRED, ExitStatus.FAILED, "the credentials have expired (ExpiredToken); get new ones, and run again"),
        (Fault.FULL, ExitStatus.FAILED, "the store has no room for it: 507 XMinioStorageFull; raise its quota, or"),
    ],
)
@pytest.mark.parametrize(
    ("at", "method"),
    [
        (KIND.part.format(2), "PUT"),
        *KIND.around_parts,
        ("orders-0/", "PUT"),
        (MANIFEST_FILE, "PUT"),
    ],
)
def test_store_that_fails_in_the_middle_leaves_no_copy(
    few_logs: Path, to: Destination, through: Proxy, fault: Fault, status: ExitStatus, line: str, at: str, method: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    through.fault = lambda asked, path: fault if asked == method and at in path else Fault.NONE
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == status
    err = capsys.readouterr().err
    assert line in err
    assert "Traceback" not in err
    assert "partition_failed" not in err
    assert_is_no_copy(to, few_logs, capsys)


def test_mark_that_cannot_be_removed_leaves_the_copy_whole(
    few_logs: Path, to: Destination, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    through.fault = lambda method, path: Fault.DENIED if KIND.deletion in path or method == "DELETE" else Fault.NONE
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") in (ExitStatus.DONE, ExitStatus.FAILED)
    assert {MANIFEST_FILE, INCOMPLETE_FILE} <= to.files("copy").keys()
    capsys.readouterr()
    main(["diff", str(few_logs), f"{SCHEME}://{to.name}/copy"])
    assert "incomplete" not in "".join(capsys.readouterr())


def test_killed_run_leaves_no_copy(
    few_logs: Path, to: Destination, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "cleaner", "clean", "--yes", "--kafka-defaults", "--log-dir", str(few_logs),
               "--output", f"{SCHEME}://{to.name}/copy"]  # fmt: skip
    kill_as_it_writes(command, through, "orders-0/")
    assert_is_no_copy(to, few_logs, capsys)


def kill_as_it_writes(command: Sequence[str], proxy: Proxy, into: str, **more: str) -> None:
    """Run a command, and kill it as it puts a file whose path has ``into``; ``more`` is of its environment."""
    environ = os.environ | environment(proxy.url) | more
    with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as process:

        def killed(method: str, path: str) -> Fault:
            if method == "PUT" and into in path:
                process.kill()
            return Fault.NONE

        proxy.fault = killed
        assert process.wait(60) == -signal.SIGKILL
    proxy.fault = lambda _method, _path: Fault.NONE


def test_second_run_at_once_is_refused(
    few_logs: Path, to: Destination, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both runs saw an empty place, and only one of them can make the mark."""
    first = f"copy/{INCOMPLETE_FILE}"

    def raced(method: str, path: str) -> Fault:
        if method == "PUT" and first in path and not to.files("copy"):
            obstore.put(to.store, first, b"of another run")
        return Fault.NONE

    through.fault = raced
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == ExitStatus.USAGE
    assert "holds a log dir that another run is writing; name another directory" in capsys.readouterr().err
    assert to.files("copy") == {INCOMPLETE_FILE: b"of another run"}


@pytest.mark.skipif(IS_OTHER, reason="NOT RUN: another server checks what signs the header")
@pytest.mark.parametrize("name", [INCOMPLETE_FILE, "orders-0/00000000000000000000.log", "orders-0/more", "more"])
def test_place_that_another_run_takes_all_the_same_becomes_no_copy(
    few_logs: Path, to: Destination, through: Proxy, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server knows no condition on a put, and passes over it."""
    through.unsupported = frozenset({"if-none-match"})

    def raced(method: str, path: str) -> Fault:
        if method == "PUT" and "/payments-0/" in path and f"{name} of another" not in to.files("copy").values():
            obstore.put(to.store, f"copy/{name}", f"{name} of another".encode())
        return Fault.NONE

    through.fault = raced
    assert copied(few_logs, f"{SCHEME}://{to.name}/copy") == ExitStatus.FAILED
    err = capsys.readouterr().err
    assert f"{SCHEME}://{to.name}/copy/{name}: it was not written here: another process writes there, too" in err
    assert MANIFEST_FILE not in to.files("copy")


@pytest.mark.parametrize("change", ["replaced", "removed", "added"])
@pytest.mark.parametrize("is_local", [True, False])
def test_source_in_a_bucket_that_changes_ends_the_copy(
    samples: Samples, to: Destination, through: Proxy, tmp_path: Path, change: str, is_local: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    source = samples.copy("before", tmp_path / "source", ["orders-0", "payments-0"])
    for path in source.rglob("*"):
        if path.is_file():
            obstore.put(to.store, f"source/{path.relative_to(source).as_posix()}", path.read_bytes())
    log = "source/orders-0/00000000000000000000.log"
    done = []

    def changed(method: str, path: str) -> Fault:
        if not done and method == "GET" and ".log" in path and "payments-0" in path:
            done.append(path)
            if change == "removed":
                obstore.delete(to.store, log)
            else:
                obstore.put(to.store, log if change == "replaced" else "source/orders-0/x", b"other")
        return Fault.NONE

    through.fault = changed
    output = tmp_path / "copy" if is_local else f"{SCHEME}://{to.name}/copy"
    assert copied(f"{SCHEME}://{to.name}/source", output) == ExitStatus.FAILED
    assert done
    err = capsys.readouterr().err
    assert "changed since the copy was planned" in err
    assert "Traceback" not in err
    there = local_files(tmp_path / "copy") if is_local else to.files("copy")
    assert MANIFEST_FILE not in there


def test_two_score_bad_days_end_with_a_whole_copy_or_with_none(
    samples: Samples, server: str, through: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, to = samples.copy("before", tmp_path / "source", ["payments-0"]), Destination(server, "bad-days")
    assert copied(source, tmp_path / "copy") == ExitStatus.DONE
    wanted, outcomes = local_files(tmp_path / "copy"), Counter[str]()
    for seed in some(range(SEEDS), 10, always=(1, 2)):  # most requests fail, and few
        draw = random.Random(seed)
        forget_stores()
        opening.configure(SCHEME, configuration(through.url))
        kinds = draw.choice([PASSING, PASSING, [*PASSING, Fault.DENIED, Fault.EXPIRED, Fault.FULL]])
        through.fault = faulty(draw, draw.choice([0.02, 0.2, 0.7]), kinds)
        capsys.readouterr()
        status = copied(source, f"{SCHEME}://bad-days/{seed}")
        err = capsys.readouterr().err
        there = to.files(str(seed))
        assert "Traceback" not in err
        assert "bug:" not in err
        if MANIFEST_FILE in there:
            assert differing(wanted, {name: data for name, data in there.items() if name != INCOMPLETE_FILE}) == []
        assert (status == ExitStatus.DONE) <= (MANIFEST_FILE in there), (seed, err)
        outcomes[ExitStatus(status).name] += 1
    assert outcomes.keys() >= {"DONE", "NOT_YET"}, outcomes
    assert to.unfinished() == []
