"""``fetch``: what lies in a bucket comes here whole and checked, or there is no directory of that name."""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import obstore
import pytest
from obstore.store import ObjectStore

from cleaner.cli.exit_status import ExitStatus
from cleaner.cli.main import main
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from storage.stores import opening
from tests.storage.stores.conftest import forget_stores
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import KIND, SCHEME, configuration, environment, upload, writer
from tests.storage.stores.test_copies import PASSING, copied, local_files
from tests.storage.stores.test_faults import faulty

SEEDS = 12


@pytest.fixture
def there(server: str, demo: Path) -> tuple[ObjectStore, str]:
    """The demo in a bucket of its own, as ``d/logs``."""
    name = f"fetched-{uuid4().hex}"
    store = writer(server, name)
    upload(demo, store, "d/logs")
    return store, f"{SCHEME}://{name}/d/logs"


@pytest.fixture
def url(there: tuple[ObjectStore, str], through: Proxy) -> str:
    return there[1]


def unfinished(directory: Path) -> list[Path]:
    return list(directory.parent.glob(f"{directory.name}.unfinished-*"))


def bodies(proxy: Proxy) -> set[str]:
    """Return the files of which something was read."""
    return {path for method, path, _ in proxy.traffic.requests if method == "GET" and KIND.listing not in path}


def test_what_lies_there_is_here(url: str, demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", url, str(tmp_path / "logs")]) == ExitStatus.DONE
    out = capsys.readouterr().out
    assert local_files(tmp_path / "logs") == {name: data for name, data in local_files(demo).items() if name != ".lock"}
    assert unfinished(tmp_path / "logs") == []
    assert f"files, 38.1 MiB in {tmp_path / 'logs'}" in out.replace("\n  ", " ")
    assert "nothing is damaged" in out
    assert "There is no manifest, so nothing tells whether the log dir is whole." in out
    assert main(["verify", str(tmp_path / "logs")]) == ExitStatus.DONE


def test_document_tells_the_same(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    assert main(["fetch", url, str(tmp_path / "logs"), "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    files = local_files(tmp_path / "logs")
    assert told == {
        "schema": "logcleaner.fetch/1", "source": url, "directory": str(tmp_path / "logs"), "finished": True,
        "unfinished": None, "files": len(files), "bytes": sum(map(len, files.values())), "resumed_files": 0,
        "resumed_bytes": 0, "has_manifest": False, "left_out": [], "damaged": [],
    }  # fmt: skip


def test_copy_with_a_manifest_is_compared_with_it(
    url: str, there: tuple[ObjectStore, str], demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = f"{url}-clean"
    assert copied(demo, copy) == ExitStatus.DONE
    assert copied(demo, tmp_path / "here") == ExitStatus.DONE
    obstore.put(there[0], "d/logs-clean/orders-0/notes", b"of somebody else")
    obstore.put(there[0], "d/logs-clean/foreign-0/notes", b"of somebody else")
    capsys.readouterr()
    forget_stores_of(there[0])
    assert main(["fetch", copy, str(tmp_path / "logs"), "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["has_manifest"], told["left_out"]) == (True, ["foreign-0/notes", "orders-0/notes"])
    assert not (tmp_path / "logs" / "foreign-0").exists()
    here, fetched = local_files(tmp_path / "here"), local_files(tmp_path / "logs")
    assert here.keys() == fetched.keys()
    assert [name for name in here if here[name] != fetched[name] and name != MANIFEST_FILE] == []
    times = [(tmp_path / place / "orders-0/00000000000000000000.log").stat().st_mtime_ns // 1_000_000
             for place in ("here", "logs")]  # fmt: skip
    assert times[0] == times[1]


def forget_stores_of(_store: ObjectStore) -> None:
    given = dict(opening.configured(SCHEME))
    forget_stores()
    opening.configure(SCHEME, given)


@pytest.mark.parametrize(
    ("name", "data", "line"),
    [
        ("orders-0/leader-epoch-checkpoint", b"0\n0\n", "leader-epoch-checkpoint: has another SHA-256 than in the"),
        ("orders-0/partition.metadata", None, "orders-0/partition.metadata: is missing, and the manifest names it"),
    ],
)
def test_copy_that_is_not_as_its_manifest_says_gets_no_name(
    url: str, there: tuple[ObjectStore, str], demo: Path, tmp_path: Path, name: str, data: bytes | None, line: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert copied(demo, f"{url}-clean") == ExitStatus.DONE
    if data is None:
        obstore.delete(there[0], f"d/logs-clean/{name}")
    else:
        obstore.put(there[0], f"d/logs-clean/{name}", data)
    forget_stores_of(there[0])
    capsys.readouterr()
    assert main(["fetch", f"{url}-clean", str(tmp_path / "logs")]) == ExitStatus.DAMAGED
    out, err = capsys.readouterr()
    assert line in out.replace("\n  ", " ")
    assert "was not made, because of what is damaged; --with-damage makes it all the same" in err
    assert not (tmp_path / "logs").exists()
    assert main(["fetch", f"{url}-clean", str(tmp_path / "logs"), "--with-damage"]) == ExitStatus.DAMAGED
    assert (tmp_path / "logs" / MANIFEST_FILE).is_file()
    assert unfinished(tmp_path / "logs") == []


def test_damaged_batch_is_found(
    url: str, there: tuple[ObjectStore, str], demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "orders-0/00000000000000000000.log"
    data = bytearray((demo / name).read_bytes())
    data[len(data) // 2] ^= 1
    obstore.put(there[0], f"d/logs/{name}", bytes(data))
    assert main(["fetch", url, str(tmp_path / "logs"), "--json"]) == ExitStatus.DAMAGED
    told = json.loads(capsys.readouterr().out)
    assert [found["path"].rpartition("/")[2] for found in told["damaged"]] == ["00000000000000000000.log"]
    assert told["finished"] is False
    assert told["unfinished"] == str(unfinished(tmp_path / "logs")[0])


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_fetch_goes_on_with_what_is_whole(
    url: str, demo: Path, through: Proxy, tmp_path: Path, signal_: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def interrupted(method: str, path: str) -> Fault:
        asked.append(path)
        if len(asked) == 60:
            os.kill(os.getpid(), signal_)
        return Fault.NONE

    through.fault = interrupted
    assert main(["fetch", url, str(tmp_path / "logs")]) == 128 + signal_
    err = capsys.readouterr().err
    (beside,) = unfinished(tmp_path / "logs")
    assert f"interrupted: the same command goes on from here, with what is in {beside}" in err
    assert not (tmp_path / "logs").exists()
    assert (beside / INCOMPLETE_FILE).exists()
    brought = bodies(through)
    through.traffic.clear()
    through.fault = lambda _method, _path: Fault.NONE
    assert main(["fetch", url, str(tmp_path / "logs"), "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert 20 < told["resumed_files"] < told["files"]
    assert len(brought & bodies(through)) <= 8, "the files in work, and those that are read at each beginning"
    assert local_files(tmp_path / "logs") == {name: data for name, data in local_files(demo).items() if name != ".lock"}


def test_killed_fetch_trusts_nothing_that_it_did_not_check(
    url: str, there: tuple[ObjectStore, str], demo: Path, through: Proxy, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command = [sys.executable, "-m", "cleaner", "fetch", url, str(tmp_path / "logs"), "--threads", "1"]
    asked = []
    with subprocess.Popen(command, env=os.environ | environment(through.url)) as process:

        def killed(method: str, path: str) -> Fault:
            asked.append(path)
            if len(asked) == 70:
                process.kill()
            return Fault.NONE

        through.fault = killed
        assert process.wait(60) == -signal.SIGKILL
    through.fault = lambda _method, _path: Fault.NONE
    (beside,) = unfinished(tmp_path / "logs")
    notes = [json.loads(line) for line in (beside / INCOMPLETE_FILE).read_text().splitlines() if line]
    noted = [note["path"] for note in notes if "path" in note]
    assert len(noted) > 20
    torn, gone, replaced = noted[:3]
    (beside / torn).write_bytes((beside / torn).read_bytes()[:-1] + b"x")
    (beside / gone).unlink()
    obstore.put(there[0], f"d/logs/{replaced}", (demo / replaced).read_bytes())  # another time, so another version
    (beside / "orders-0/stray").write_bytes(b"x")
    assert main(["fetch", url, str(tmp_path / "logs"), "--json"]) == ExitStatus.DONE
    told = json.loads(capsys.readouterr().out)
    assert told["resumed_files"] == len(noted) - 3
    assert local_files(tmp_path / "logs") == {name: data for name, data in local_files(demo).items() if name != ".lock"}


@pytest.mark.parametrize("change", ["replaced", "removed", "added"])
def test_place_that_changes_meanwhile_is_not_finished(
    url: str, there: tuple[ObjectStore, str], demo: Path, through: Proxy, tmp_path: Path, change: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    name, asked = "d/logs/sessions-0/partition.metadata", []

    def changed(method: str, path: str) -> Fault:
        asked.append(path)
        if len(asked) == 60:
            if change == "removed":
                obstore.delete(there[0], name)
            else:
                obstore.put(there[0], name if change == "replaced" else f"{name}.new", b"version: 0\n")
        return Fault.NONE

    through.fault = changed
    assert main(["fetch", url, str(tmp_path / "logs")]) == ExitStatus.FAILED
    err = capsys.readouterr().err
    assert "changed since the copy was planned" in err
    assert "no copy was finished: run again, and the fetch goes on from there" in err
    assert not (tmp_path / "logs").exists()
    through.fault = lambda _method, _path: Fault.NONE
    main(["fetch", url, str(tmp_path / "logs"), "--with-damage"])
    wanted = {f"sessions-0/{Path(name).name}": b"version: 0\n"} if change == "replaced" else {}
    here = local_files(tmp_path / "logs")
    assert {key: here[key] for key in wanted} == wanted
    assert (f"sessions-0/{Path(name).name}" in here) == (change != "removed")


def test_names_are_those_of_the_bucket(server: str, through: Proxy, demo: Path, tmp_path: Path) -> None:
    store = writer(server, f"odd-{(name := uuid4().hex)}")
    upload(demo, store, "d%2F/a b/logs")
    obstore.put(store, "d%2F/a b/logs/100%", b"%41")
    assert main(["fetch", f"{SCHEME}://odd-{name}/d%2F/a b/logs", str(tmp_path / "logs")]) == ExitStatus.DONE
    assert (tmp_path / "logs" / "100%").read_bytes() == b"%41"
    assert (tmp_path / "logs" / "orders-0").is_dir()


@pytest.mark.parametrize(
    ("made", "status", "line"),
    [
        ("d/file", ExitStatus.USAGE, "is not empty; name a new or an empty one"),
        ("d", ExitStatus.USAGE, "is no directory; name a new or an empty one"),
        (MANIFEST_FILE, ExitStatus.USAGE, "which holds a finished log dir; name a directory beside that one"),
        ("x/", ExitStatus.DONE, ""),
    ],
)
def test_directory_with_something_in_it_is_refused(
    url: str, tmp_path: Path, made: str, status: ExitStatus, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / made
    path.parent.mkdir(exist_ok=True)
    path.mkdir() if made.endswith("/") else path.write_bytes(b"x")
    named = "logs" if made == MANIFEST_FILE else made.partition("/")[0]
    assert main(["fetch", url, str(tmp_path / named)]) == status
    assert line in capsys.readouterr().err


def test_wrong_places_are_told(url: str, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, status, line in (
        ([url, f"{SCHEME}://elsewhere/d"], ExitStatus.USAGE, "lies in a store; name a directory of this machine"),
        ([url, str(tmp_path / "no/logs")], ExitStatus.USAGE, f"{tmp_path / 'no'} does not exist; make it first"),
        (
            [f"{SCHEME}://archives/nothing", str(tmp_path / "d")],
            ExitStatus.NOT_YET,
            f"{SCHEME}://archives/nothing: does not exist",
        ),
        ([f"{SCHEME}://archives//x", str(tmp_path / "d")], ExitStatus.USAGE, "has an empty part, '.' or '..' in it"),
        ([f"{SCHEME}://no-such-bucket/x", str(tmp_path / "d")], ExitStatus.USAGE, "no such bucket"),
    ):
        assert main(["fetch", *words]) == status
        assert line in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_copy_that_was_interrupted_is_not_fetched(
    url: str, there: tuple[ObjectStore, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    obstore.put(there[0], f"d/logs/{INCOMPLETE_FILE}", b"x")
    assert main(["fetch", url, str(tmp_path / "logs")]) == ExitStatus.FAILED
    assert "an incomplete log dir: a copy or a write of Spark was interrupted" in capsys.readouterr().err


def test_second_fetch_at_once_is_refused(
    url: str, through: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    through.fault = lambda _method, path: Fault.DENIED if "orders-1" in path else Fault.NONE
    assert main(["fetch", url, str(tmp_path / "logs")]) == ExitStatus.FAILED
    (beside,) = unfinished(tmp_path / "logs")
    with (beside / INCOMPLETE_FILE).open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert main(["fetch", url, str(tmp_path / "logs")]) == ExitStatus.LOCKED
    assert "another process fetches into it; wait for that one" in capsys.readouterr().err


def test_dozen_bad_days_brings_all_or_goes_on(
    url: str, demo: Path, through: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {name: data for name, data in local_files(demo).items() if name != ".lock"}
    outcomes = Counter[str]()
    for seed in range(SEEDS):
        draw = random.Random(seed)
        forget_stores()
        opening.configure(SCHEME, configuration(through.url))
        kinds = draw.choice([PASSING, PASSING, [*PASSING, Fault.DENIED, Fault.REPLACED, Fault.GONE]])
        through.fault = faulty(draw, draw.choice([0.02, 0.2, 0.7]), [*kinds, Fault.CUT])
        directory = tmp_path / str(seed)
        status = main(["fetch", url, str(directory)])
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert "bug:" not in err
        assert (status == ExitStatus.DONE) == directory.exists(), (seed, err)
        if status != ExitStatus.DONE:
            through.fault = lambda _method, _path: Fault.NONE
            forget_stores()
            opening.configure(SCHEME, configuration(through.url))
            assert main(["fetch", url, str(directory)]) == ExitStatus.DONE
        assert local_files(directory) == wanted
        outcomes[ExitStatus(status).name] += 1
    assert outcomes.keys() >= {"DONE", "NOT_YET"}, outcomes


def test_directory_of_this_machine_is_fetched_alike(demo: Path, tmp_path: Path) -> None:
    assert main(["fetch", str(demo), str(tmp_path / "logs")]) == ExitStatus.DONE
    assert local_files(tmp_path / "logs") == {name: data for name, data in local_files(demo).items() if name != ".lock"}
