"""``export`` to a bucket: the file of an export here, or none."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from uuid import uuid4

import obstore
import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import KIND, SCHEME
from tests.storage.stores.test_copies import Destination


@pytest.fixture
def to(server: str, through: Proxy) -> Destination:
    return Destination(server, f"exports-{uuid4().hex}")


def exported(demo: Path, name: str, file: object, kind: str = "jsonl") -> int:
    return main(["export", name, "--to", kind, str(file), "--log-dir", str(demo)])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_file_in_a_bucket_has_the_bytes_of_one_here(
    demo: Path, to: Destination, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exported(demo, "audit-0", tmp_path / "file", kind) == ExitStatus.DONE
    here = capsys.readouterr().out
    assert exported(demo, "audit-0", f"{SCHEME}://{to.name}/d/file", kind) == ExitStatus.DONE
    assert capsys.readouterr().out == here.replace(str(tmp_path / "file"), f"{SCHEME}://{to.name}/d/file")
    assert to.files("d") == {"file": (tmp_path / "file").read_bytes()}
    assert to.unfinished() == []


def test_file_that_is_there_is_not_replaced(demo: Path, to: Destination, capsys: pytest.CaptureFixture[str]) -> None:
    obstore.put(to.store, "d/file", b"x")
    assert exported(demo, "orders-0", f"{SCHEME}://{to.name}/d/file") == ExitStatus.USAGE
    assert f"{SCHEME}://{to.name}/d/file: is there already, and is not replaced" in capsys.readouterr().err
    assert to.files("d") == {"file": b"x"}


def test_file_in_the_log_dir_is_refused(bucket: str, through: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "orders-0", "--to", "jsonl", f"{bucket}/new/x", "--log-dir", f"{bucket}/new"]) == 2
    assert f"lies in the log dir {SCHEME}://archives/new; name a file outside it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (Fault.SLOW_DOWN, ExitStatus.NOT_YET, "cannot be written now: the store answers 503 SlowDown"),
        (
            Fault.DENIED,
            ExitStatus.FAILED,
            "the store forbids it: 403 AccessDenied; check the credentials, and what they",
        ),
        (Fault.FULL, ExitStatus.FAILED, "the store has no room for it: 507 XMinioStorageFull"),
    ],
)
@pytest.mark.parametrize(("name", "at"), [("audit-0", KIND.part.format(1)), ("orders-0", "d/file")])
def test_export_that_fails_leaves_no_file(
    demo: Path, to: Destination, through: Proxy, fault: Fault, status: ExitStatus, line: str, name: str, at: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    through.fault = lambda method, path: fault if method == "PUT" and at in path else Fault.NONE
    assert exported(demo, name, f"{SCHEME}://{to.name}/d/file") == status
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
    assert to.files("d") == {}
    assert to.unfinished() == []


def test_interrupted_export_leaves_no_file_or_a_whole_one(
    demo: Path, to: Destination, through: Proxy, tmp_path: Path
) -> None:
    assert exported(demo, "audit-0", tmp_path / "file") == ExitStatus.DONE
    sent = []

    def interrupted(method: str, path: str) -> Fault:
        if method == "PUT" and not sent:
            sent.append(path)
            os.kill(os.getpid(), signal.SIGTERM)
        return Fault.NONE

    through.fault = interrupted
    assert exported(demo, "audit-0", f"{SCHEME}://{to.name}/d/file") == ExitStatus.SIGTERM
    assert to.files("d") in ({}, {"file": (tmp_path / "file").read_bytes()})
    assert to.unfinished() == []


@pytest.mark.parametrize("name", ["empty-0", "orders-0"])
def test_name_that_another_process_takes_meanwhile_keeps_its_file(
    demo: Path, to: Destination, through: Proxy, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = []

    def raced(method: str, _path: str) -> Fault:
        looks.append(method)
        is_last_look = looks.count("HEAD") == 3 or (name == "empty-0" and method == "PUT")
        if is_last_look and not to.files("d"):
            obstore.put(to.store, "d/file", b"of another")
        return Fault.NONE

    through.fault = raced
    assert exported(demo, name, f"{SCHEME}://{to.name}/d/file") == ExitStatus.FAILED
    assert "it is there already: another process writes there, too" in capsys.readouterr().err
    assert to.files("d") == {"file": b"of another"}
