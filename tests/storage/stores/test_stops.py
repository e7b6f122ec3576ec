"""SIGINT and SIGTERM while a store hangs: the command ends soon, with their status, and no copy looks whole."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import NamedTuple
from uuid import uuid4

import obstore
import pytest

from cleaner.cli.main import main
from storage.errors import Stopped
from storage.names import INCOMPLETE_FILE, MANIFEST_FILE
from storage.stores import ENDING, asking
from storage.stores.asking import answer_to
from tests.storage.stores.proxy import Fault, Proxy
from tests.storage.stores.servers import KIND, SCHEME, environment, upload, writer

PLACE = f"{SCHEME}://bucket"
SIGNALS = [signal.SIGINT, signal.SIGTERM]
ENDS_WITHIN_SECONDS = 3.0
WAITS = 2_000
GOES_ON = "interrupted: the same command goes on from here, with what is in "
COMMANDS = {
    "topics {url}": "",
    "verify {url}": "",
    "dump orders-0 --log-dir {url}": "",
    "fetch {url} {tmp}/here": "logcleaner: interrupted: nothing was fetched yet\n",
    "clean --log-dir {demo} --output {url} --yes --kafka-defaults": "",
    "export audit-0 --to jsonl {url}/file --log-dir {demo}": "",
}
"""Each with what it says to a signal that comes before the first answer."""


class Ended(NamedTuple):
    """How a command ended behind a signal."""

    status: int
    seconds: float
    err: str


@contextmanager
def hanging() -> Iterator[tuple[int, Event]]:
    """Yield the port of a server that accepts each connection and answers nothing, and what tells of the first one."""
    held, came = list[socket.socket](), Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return
                came.set()

        Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
    for connection in held:
        connection.close()


def stopped(words: Sequence[str], environ: dict[str, str], hangs: Event, number: int) -> Ended:
    """Run a command, send it a signal once a request hangs, and return how it ended."""
    command, environ = [sys.executable, "-m", "cleaner", *words], os.environ | environ
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert hangs.wait(60)
            sleep(0.2)  # the signal comes within the call of the client
            sent_seconds = monotonic()
            run.send_signal(number)
            err = run.communicate(timeout=30)[1]
            return Ended(run.returncode, monotonic() - sent_seconds, err)
        finally:
            run.kill()


def assert_soon(ended: Ended, number: int) -> None:
    assert ended.status == 128 + number, ended
    assert ended.seconds < ENDS_WITHIN_SECONDS, ended


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("command", COMMANDS)
def test_store_that_never_answers_holds_up_no_stop(command: str, number: int, demo: Path, tmp_path: Path) -> None:
    with hanging() as (port, came):
        named = {"url": f"{SCHEME}://bucket/d", "tmp": tmp_path, "demo": demo}
        words, said = command.format(**named).split(), COMMANDS[command]
        environ = environment(f"http://127.0.0.1:{port}") | {"XDG_CACHE_HOME": str(tmp_path)}
        ended = stopped(words, environ, came, number)
    assert_soon(ended, number)
    assert ended.err == said


@pytest.mark.parametrize(
    ("command", "number"),
    [
        ("topics {url}", signal.SIGINT),
        ("verify {url}", signal.SIGTERM),
        ("clean --log-dir {demo} --output {url} --yes --kafka-defaults", signal.SIGINT),
    ],
)
def test_hdfs_that_never_answers_holds_up_no_stop(command: str, number: int, demo: Path, tmp_path: Path) -> None:
    with hanging() as (port, came):
        words = command.format(url=f"hdfs://127.0.0.1:{port}/d", demo=demo).split()
        assert_soon(stopped(words, {"XDG_CACHE_HOME": str(tmp_path)}, came, number), number)


class There(NamedTuple):
    """A bucket behind a proxy, some of whose answers do not come."""

    url: str
    store: obstore.store.ObjectStore
    proxy: Proxy
    hangs: Event

    def hang(self, is_it: Callable[[str, str], bool]) -> None:
        """Have each request hang for which ``is_it`` holds."""

        def fault(method: str, path: str) -> Fault:
            if not is_it(method, path):
                return Fault.NONE
            self.hangs.set()
            return Fault.STALL

        self.proxy.fault = fault

    def files(self) -> set[str]:
        """Return the names below ``d``."""
        return {meta["path"].removeprefix("d/") for page in obstore.list(self.store, "d") for meta in page}


@pytest.fixture
def there(server: str, through: Proxy) -> There:
    name = f"stopped-{uuid4().hex}"
    through.stall_seconds = 20.0
    return There(f"{SCHEME}://{name}/d", writer(server, name), through, Event())


@pytest.mark.parametrize(
    ("at", "number"),
    [(KIND.part.format(2), signal.SIGINT), ("orders-0/", signal.SIGTERM), ("meta.properties", signal.SIGINT)],
)
def test_copy_whose_upload_hangs_is_none(there: There, demo: Path, tmp_path: Path, number: int, at: str) -> None:
    log_dir = Path(shutil.copytree(demo, tmp_path / "logs"))
    (log_dir / "archive.bin").write_bytes(random.Random(1).randbytes(20 << 20))
    there.hang(lambda method, path: method == "PUT" and at in path)
    words = ["clean", "--yes", "--kafka-defaults", "--log-dir", str(log_dir), "--output", there.url]
    ended = stopped(words, environment(there.proxy.url), there.hangs, number)
    assert_soon(ended, number)
    assert INCOMPLETE_FILE in there.files()
    assert MANIFEST_FILE not in there.files()


@pytest.mark.parametrize("number", SIGNALS)
def test_fetch_whose_files_hang_goes_on_later(there: There, demo: Path, tmp_path: Path, number: int) -> None:
    upload(demo, there.store, "d")
    there.hang(lambda method, path: method == "GET" and path.endswith(".log"))
    words = ["fetch", there.url, str(tmp_path / "here")]
    ended = stopped(words, environment(there.proxy.url), there.hangs, number)
    assert_soon(ended, number)
    assert GOES_ON in ended.err
    (beside,) = tmp_path.glob("here.unfinished-*")
    assert (beside / INCOMPLETE_FILE).exists()
    there.hang(lambda _method, _path: False)
    assert main(words) == 0


@pytest.mark.parametrize(
    ("command", "number", "said"),
    [
        (
            "verify {url}",
            signal.SIGTERM,
            "logcleaner: interrupted: the same command with --resume goes on from here\n",
        ),
        ("export orders-0 --to jsonl {url}-file --log-dir {url}", signal.SIGINT, ""),
        ("dump orders-0 --log-dir {url}", signal.SIGTERM, ""),
        ("clean --log-dir {url} --output {tmp}/copy --yes --kafka-defaults", signal.SIGINT, ""),
    ],
)
def test_reading_ahead_that_hangs_holds_up_no_stop(
    there: There, demo: Path, tmp_path: Path, command: str, number: int, said: str
) -> None:
    upload(demo, there.store, "d")
    there.hang(lambda method, path: method == "GET" and path.endswith(".log") and "orders" in path)
    environ = environment(there.proxy.url) | {"XDG_CACHE_HOME": str(tmp_path)}
    ended = stopped(command.format(url=there.url, tmp=tmp_path).split(), environ, there.hangs, number)
    assert_soon(ended, number)
    assert ended.err == said


class TestAnswers:
    def test_an_error_is_raised_where_the_answer_is_waited_for(self) -> None:
        with pytest.raises(ZeroDivisionError):
            answer_to(lambda: 1 // 0, PLACE)
        assert answer_to(lambda: 7, PLACE) == 7

    def test_a_request_that_is_answered_is_over_before_a_signal_ends_the_command(self) -> None:
        over = list[bool]()

        def ask() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            sleep(0.2)
            over.append(True)

        with pytest.raises(KeyboardInterrupt):
            answer_to(ask, PLACE)
        assert over == [True]
        assert not ENDING.hanging

    def test_once_a_request_was_given_up_no_further_one_is_sent_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asking, "GRACE_SECONDS", 0.01)
        released, sent = Event(), list[int]()
        ENDING.by = signal.SIGTERM
        with pytest.raises(Stopped):
            answer_to(released.wait, PLACE)
        with pytest.raises(Stopped):
            answer_to(lambda: sent.append(1), PLACE)
        released.set()
        assert sent == []
        assert answer_to(lambda: 7, f"{SCHEME}://another") == 7

    def test_a_library_that_was_interrupted_can_ask_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in a notebook: nobody says there that the process is to end."""
        monkeypatch.setattr(asking, "GRACE_SECONDS", 0.01)
        released = Event()
        timer = Thread(target=lambda: (sleep(0.1), os.kill(os.getpid(), signal.SIGINT)), daemon=True)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            answer_to(released.wait, PLACE)
        released.set()
        assert answer_to(lambda: 7, PLACE) == 7

    def test_a_process_that_was_forked_can_ask(self) -> None:
        assert answer_to(lambda: 1, PLACE) == 1
        if not (child := os.fork()):
            signal.alarm(10)
            os._exit(answer_to(lambda: 7, PLACE))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@contextmanager
def alarms_raise() -> Iterator[None]:
    """Have SIGALRM raise wherever it comes."""

    def raises(_number: int, _frame: object) -> None:
        raise Raised

    previous = signal.signal(signal.SIGALRM, raises)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.timeout(120, method="thread")  # the other method takes the timer of this test
def test_handler_that_raises_at_any_moment_of_a_wait_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ``Event`` keeps its lock if a handler raises right behind the taking of it: the next wait never ends."""
    monkeypatch.setattr(asking, "GRACE_SECONDS", 0.001)
    monkeypatch.setattr(asking, "LOOK_SECONDS", 0.00002)
    ended, dice = 0, random.Random(41)
    try:
        with alarms_raise():
            for number in range(WAITS):
                hangs = Event()
                with suppress(Raised):
                    signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0005, 0.002))
                    answer_to(hangs.wait, f"memory://{number}")
                hangs.set()
                ended += 1
    finally:
        ENDING.hanging.clear()
    assert ended == WAITS


@pytest.mark.timeout(120, method="thread")
def test_store_that_answered_does_not_count_as_hanging_whenever_a_handler_raises() -> None:
    dice = random.Random(42)
    with alarms_raise():
        for _ in range(WAITS):
            with suppress(Raised):
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0001, 0.0005))
                while True:
                    answer_to(int, "memory://answers")
    assert not ENDING.hanging


class Raised(BaseException):
    """What the handler raises."""
