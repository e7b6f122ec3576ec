"""Every command that reads a log dir in a store says what it says of the same log dir on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.stores import opening
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import IS_OTHER, SCHEME, configuration, put_as_named, upload, writer

OF_A_DISK = {
    *("disk_bytes", "apparent_bytes", "free_bytes", "kinds", "file_systems", "runway", "runways", "space", "on_disk"),
    "start",
    *("now", "next_expiry_ms", "seconds", "bytes_per_second", "generated_at", "mtime_ms", "freed_disk_bytes"),
}
"""Keys of what a store has not, such as figures of a disk and the start of a broker, or that pass with the time."""
REFUSED = "logcleaner: a run without --dry-run would be refused: HERE lies in a store, which is read only\n"
COMMANDS = [
    "topics --json --log-dir {}",
    "explain orders-0 --json --log-dir {}",
    "explain --exact payments-0 --json --log-dir {}",
    "clean --dry-run --exact --kafka-defaults --now 2026-11-24T00:00:00Z --json --log-dir {}",
    "lookup orders-0 --offset 5000 --trace --json --log-dir {}",
    "lookup {}/payments-0 --timestamp 2026-11-20T00:00:00Z --trace --json",
    "lookup ledger-0 --timestamp max-timestamp --json --log-dir {}",
    "dump --print-data-log {}/orders-0",
    "dump --json {}/payments-0",
    "dump {}/mixed-0 {}/__cluster_metadata-0",
    "dump orders-0 --log-dir {}",
    "export orders-0 - --to jsonl --log-dir {}",
    "export payments-0 - --to jsonl --isolation-level read_committed --log-dir {}",
    "verify --deep --json {}",
    "verify --json {}/ledger-0",
    "diff --json {} {}",
    "owners --json --log-dir {}",
    "doctor --json {}",
    "doctor --deep --json {}",
    "prove-erased no-such-key --json --log-dir {}",
]


@pytest.fixture
def cloud(through: Proxy, bucket: str) -> str:
    return f"{bucket}/new"


@pytest.mark.parametrize("command", COMMANDS)
def test_command_says_the_same(command: str, local: str, cloud: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(differences(*said_of((cloud, local), command, capsys))) == []


def said_of(places: tuple[str, str], command: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, Any]:
    """Run a command on two places. Return of each the exit status, and all that it says."""
    said = {}
    for place in places:
        status = main(command.format(place, place).split())
        out, err = capsys.readouterr()
        said[place] = (
            status,
            told(out.replace(place, "HERE"), is_json="--json" in command),
            err.replace(place, "HERE").replace(REFUSED, ""),
        )
        assert status in (ExitStatus.DONE, ExitStatus.DAMAGED)
    return said[places[0]], said[places[1]]


def told(text: str, *, is_json: bool) -> object:
    if not is_json:
        return text
    try:
        return pruned(json.loads(text))
    except json.JSONDecodeError:
        return [pruned(json.loads(line)) for line in text.splitlines()]


def is_compared(key: str) -> bool:
    return key not in OF_A_DISK and "disk_bytes" not in key


def differences(here: Any, there: Any, at: str = "") -> Iterator[str]:
    """Yield each place at which two values differ, and how."""
    if isinstance(here, dict) and isinstance(there, dict):
        for key in here.keys() | there.keys():
            yield from differences(here.get(key, "absent"), there.get(key, "absent"), f"{at}.{key}")
    elif isinstance(here, list | tuple) and isinstance(there, list | tuple) and len(here) == len(there):
        for place, pair in enumerate(zip(here, there, strict=True)):
            yield from differences(*pair, f"{at}[{place}]")
    elif here != there:
        yield f"{at}: {str(here)[:300]} instead of {str(there)[:300]}"


def pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: pruned(one) for key, one in value.items() if is_compared(key)}
    return [pruned(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("clean {}", "lies in a store, where nothing is changed in place; look at it with clean --dry-run, or write a"),
        ("free --target 1GiB {}", "lies in a store, where nothing is changed in place; "),
        ("verify {} --repair --yes", "lies in a store, where nothing is changed in place; "),
        ("preflight {}", "lies in a store, and preflight reads directories of this machine; copy it here first"),
        ("doctor {} --sweep x --yes", "lies in a store, where nothing is changed in place; "),
    ],
)
def test_other_command_refuses_a_url_in_one_line(
    command: str, line: str, through: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.format(f"{SCHEME}://archives/new").split()) == ExitStatus.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"logcleaner: {SCHEME}://archives/new: {line}")
    assert err.count("\n") == 1
    assert through.traffic.requests == []


@pytest.mark.parametrize(
    ("url", "status", "line"),
    [
        (
            f"{SCHEME}://archives/nothing",
            ExitStatus.NOT_YET,
            f"{SCHEME}://archives/nothing: does not exist; copy a log dir there, or",
        ),
        (
            f"{SCHEME}://no-such-bucket/new",
            ExitStatus.USAGE,
            f"{SCHEME}://no-such-bucket: no such bucket; check its name, and the",
        ),
        (
            f"{SCHEME}://archives/new/orders-0",
            ExitStatus.USAGE,
            f"{SCHEME}://archives/new/orders-0: is a partition directory; use its",
        ),
        (
            "ftp://archives/new",
            ExitStatus.USAGE,
            "ftp:// cannot be read; a path, file://, s3://, gs://, abfs://, hdfs://",
        ),
        (
            f"{SCHEME}://archives//new",
            ExitStatus.USAGE,
            f"{SCHEME}://archives//new: has an empty part, '.' or '..' in it; a log dir",
        ),
    ],
)
def test_wrong_url_is_told(
    url: str, status: ExitStatus, line: str, cloud: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topics", url]) == status
    err = capsys.readouterr().err
    assert line in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("fault", "status", "line"),
    [
        (Fault.SLOW_DOWN, ExitStatus.NOT_YET, "cannot be read now: the store answers 503 SlowDown; try again later"),
        (Fault.RESET, ExitStatus.NOT_YET, "cannot be read now: error sending request to http://127.0.0.1:"),
        (Fault.DENIED, ExitStatus.FAILED, "the store forbids it: 403 AccessDenied; check the credentials"),
        (Fault.EXPIRED, ExitStatus.FAILED, "the credentials have expired (ExpiredToken); get new ones, and run again"),
        (Fault.UNKNOWN_USER, ExitStatus.FAILED, "answers 404 XAdminUserNotFound; perhaps the credentials are wrong or"),
    ],
)
@pytest.mark.parametrize("command", ["topics {}", "lookup {}/orders-0 --offset 1", "dump {}/orders-0"])
def test_bad_day_ends_a_command_in_one_line(
    command: str, fault: Fault, status: ExitStatus, line: str, cloud: str, through: Proxy,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    through.fault = lambda _method, _path: fault
    assert main(command.format(cloud).split()) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert line in err
    assert err.count("\n") == 1


def test_point_lookup_takes_few_requests(cloud: str, through: Proxy, capsys: pytest.CaptureFixture[str]) -> None:
    through.traffic.clear()
    assert main(f"lookup {cloud}/orders-0 --offset 5000".split()) == ExitStatus.DONE
    assert "Offset 5000" in capsys.readouterr().out
    assert len(through.traffic.requests) <= 10, through.traffic.requests
    assert through.traffic.body_bytes <= 1 << 20


def test_file_url_is_a_path(local: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "--json", f"file://{local}"]) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out)


@pytest.mark.skipif(IS_OTHER, reason="NOT RUN: another server may have no such names")
def test_name_that_no_path_has_spoils_its_own_directory_alone(
    server: str, through: Proxy, demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = writer(server, bucket := f"odd-{uuid4().hex}")
    upload(demo, store, "logs")
    url = f"{SCHEME}://{bucket}/logs"

    def topics() -> tuple[int, list[tuple[str, int, bool]], str]:
        forget_stores()
        opening.configure(SCHEME, configuration(through.url))
        capsys.readouterr()
        status = main(["topics", "--json", url])
        out, err = capsys.readouterr()
        assert out, err
        found = json.loads(out)["partitions"]
        return status, [(one["topic"], one["partition"], one["error"] is None) for one in found], err

    status, whole, _ = topics()
    put_as_named(server, bucket, ["logs/foreign//x", "logs/foreign/a/../y"])
    assert topics()[:2] == (status, whole)
    put_as_named(server, bucket, ["logs/orders-0/./z"])
    status, found, err = topics()
    assert status == ExitStatus.FAILED
    assert found == [(topic, number, (topic, number) != ("orders", 0)) for topic, number, _ in whole]
    assert main(["verify", url]) == ExitStatus.DAMAGED  # a broker does not start beside the directory "foreign"
    out, err = capsys.readouterr()
    assert f"{url}/orders-0: cannot be read: the name 'logs/orders-0/./' below it has the part '.'; move it" in err
    assert "1 place could not be read" in " ".join(out.split())
    put_as_named(server, bucket, ["logs//x"])
    forget_stores()
    opening.configure(SCHEME, configuration(through.url))
    assert main(["topics", url]) == ExitStatus.FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"logcleaner: {url}: the name 'logs//' below it has an empty part; move it elsewhere"
