"""What events of the file system mean, and that they come."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import pytest
from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileDeletedEvent,
    FileMovedEvent,
)
from watchdog.observers.api import BaseObserver

from cleaner.daemon import watch as module
from cleaner.daemon.watch import Seen, Watch, meaning, with_links
from cleaner.events import Event
from storage.names import TopicPartition

APPEARED, VANISHED, FILES = Event.PARTITION_APPEARED, Event.PARTITION_VANISHED, Event.FILES_VANISHED
DATA = Path("/data")
BASE = "00000000000000000000"
GOING, FUTURE = (f"a-0.0123456789abcdef0123456789abcdef-{suffix}" for suffix in ("delete", "future"))


def path(*parts: str) -> str:
    return str(DATA.joinpath(*parts))


@pytest.mark.parametrize(
    ("story", "event", "expected"),
    [
        ("a partition appears", DirCreatedEvent(path("a-0")), [APPEARED]),
        ("a partition vanishes", DirDeletedEvent(path("a-0")), [VANISHED]),
        ("a broker deletes one", DirMovedEvent(path("a-0"), path(GOING)), [VANISHED]),
        ("a future replica becomes the live one", DirMovedEvent(path(FUTURE), path("a-0")), [APPEARED]),
        ("a rename by hand", DirMovedEvent(path("a-0"), path("a-1")), [VANISHED, APPEARED]),
        ("moved to another disk", DirMovedEvent(path("a-0"), "/elsewhere/a-0"), [VANISHED]),
        ("no partition", DirCreatedEvent(path("lost+found")), []),
        ("the log dir itself", DirDeletedEvent(path()), []),
        ("a directory in a partition", DirCreatedEvent(path("a-0", "b-0")), []),
        ("a segment removed by hand", FileDeletedEvent(path("a-0", f"{BASE}.log")), [FILES]),
        ("a segment moved away", FileMovedEvent(path("a-0", f"{BASE}.log"), "/elsewhere/x.log"), [FILES]),
        ("a segment renamed", FileMovedEvent(path("a-0", f"{BASE}.log"), path("a-0", "old")), [FILES]),
        ("a segment retired", FileMovedEvent(path("a-0", f"{BASE}.log"), path("a-0", f"{BASE}.log.deleted")), []),
        ("a retired one removed", FileDeletedEvent(path("a-0", f"{BASE}.log.deleted")), []),
        ("a cleaned one discarded", FileDeletedEvent(path("a-0", f"{BASE}.log.cleaned")), []),
        ("a swap", FileMovedEvent(path("a-0", f"{BASE}.log.swap"), path("a-0", f"{BASE}.log")), []),
        ("an index, which can be rebuilt", FileDeletedEvent(path("a-0", f"{BASE}.index")), []),
        ("a checkpoint", FileMovedEvent(path("x-checkpoint.tmp"), path("x-checkpoint")), []),
        ("of a partition that is being deleted", FileDeletedEvent(path(GOING, f"{BASE}.log")), []),
    ],
)  # fmt: skip
def test_what_an_event_means(story, event, expected):
    assert [seen.event for seen in meaning(DATA, event)] == expected, story


class Heard:
    def __init__(self) -> None:
        self.config, self.seen, self.polling = 0, list[Seen](), list[str]()
        self.watch = Watch(self._on_config, self.seen.append, self.polling.append)

    def _on_config(self) -> None:
        self.config += 1

    def wait(self, condition) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def place(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "data" / "a-0").mkdir(parents=True)
    (tmp_path / "etc" / "c.toml").write_text("")
    (tmp_path / "data" / "a-0" / f"{BASE}.log").write_text("")
    return tmp_path


@pytest.fixture(params=["inotify", "polling"])
def heard(request, monkeypatch):
    def refused() -> None:
        raise OSError(24, "inotify instance limit reached")

    if request.param == "polling":
        monkeypatch.setattr(module, "Observer", refused)
        monkeypatch.setattr(module, "CONFIG_POLL_SECONDS", 0.05)
        monkeypatch.setattr(module, "LOG_DIR_POLL_SECONDS", 0.05)
    heard = Heard()
    yield heard
    heard.watch.close()
    assert heard.polling == (["inotify instance limit reached"] * 2 if request.param == "polling" else [])


def test_changes_are_seen_with_inotify_and_without(heard, place):
    heard.watch.start([place / "etc" / "c.toml"], [place / "data"])
    (place / "etc" / "other").write_text("x")
    (place / "etc" / "c.toml").write_text("x = 1")
    heard.wait(lambda: heard.config)
    data = place / "data"
    numbers = itertools.count()
    heard.wait(lambda: heard.seen or (data / f"first-{next(numbers)}").mkdir())  # polling begins with what it finds
    (data / "b-1").mkdir()  # first: with the inode of what is gone, a poller would take it for that, moved
    (data / "a-0" / f"{BASE}.log").unlink()

    def others() -> set[Seen]:
        return {seen for seen in heard.seen if seen.topic_partition.topic != "first"}

    heard.wait(lambda: len(others()) == 2)
    assert others() == {
        Seen(FILES, data, TopicPartition("a", 0)),
        Seen(APPEARED, data, TopicPartition("b", 1)),
    }


def test_a_file_that_is_replaced_is_noticed(place):
    heard = Heard()
    heard.watch.start([place / "etc" / "c.toml"], [])
    (place / "etc" / "new").write_text("x = 2")
    (place / "etc" / "new").rename(place / "etc" / "c.toml")
    heard.wait(lambda: heard.config)
    heard.watch.close()
    assert (heard.seen, heard.polling) == ([], [])


def test_a_config_map_that_the_kubelet_replaces_is_told(tmp_path, heard):
    """In a volume with a ConfigMap only the symlink ``..data`` changes: it leads to the newest state of all files."""
    numbers = itertools.count()

    def replace() -> None:
        state = tmp_path / f"..{next(numbers)}"
        state.mkdir()
        (state / "logcleaner.toml").write_text(f"# {state}")
        (tmp_path / "..data_tmp").symlink_to(state.name)
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")

    replace()
    (tmp_path / "logcleaner.toml").symlink_to("..data/logcleaner.toml")
    heard.watch.start([tmp_path / "logcleaner.toml"], [])
    heard.wait(lambda: heard.config or replace())  # polling begins with what it finds


def test_symlinks_that_lead_in_a_circle_or_elsewhere_are_left(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert set(with_links(tmp_path / "a")) == {tmp_path / "a", tmp_path / "b"}
    for target in ("/etc/passwd", "../c"):
        (tmp_path / "c").unlink(missing_ok=True)
        (tmp_path / "c").symlink_to(target)
        assert set(with_links(tmp_path / "c")) == {tmp_path / "c"}
    assert set(with_links(tmp_path / "gone")) == {tmp_path / "gone"}


def test_appends_are_not_watched(place):
    heard = Heard()
    heard.watch.start([], [place / "data"])
    with (place / "data" / "a-0" / f"{BASE}.log").open("ab") as log:
        for _ in range(50):
            log.write(b"x")
            log.flush()
    (place / "data" / "b-1").mkdir()
    heard.wait(lambda: heard.seen)
    heard.watch.close()
    assert [seen.event for seen in heard.seen] == [APPEARED]


def observers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if isinstance(thread, BaseObserver)}


def test_watching_the_same_begins_nothing_anew(place):
    heard, others = Heard(), observers()
    heard.watch.start([], [place / "data"])
    watching = observers() - others
    heard.watch.start([], [place / "data"])
    assert observers() - others == watching != set()
    heard.watch.start([], [])
    assert not observers() & watching
    heard.watch.close()


def test_a_log_dir_that_is_gone_stops_nothing(place):
    heard = Heard()
    heard.watch.start([], [place / "nowhere"])
    assert heard.polling
    heard.watch.close()
