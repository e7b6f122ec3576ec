"""The watch over changes by others: configuration files, partition directories, files removed by hand.

Nothing depends on these events: each turn reads partitions anew, and each survey looks at the sources. The events make
a reload prompt. They also tell people what no turn can know: that a file was there a moment ago.

Only names are watched, not contents (50 appends make 250 events otherwise, and our own reads more): creations, moves,
deletions, in a log dir and in each partition. Changes by cleaners and brokers are recognised by their names, and
ignored: they rename files to ``.deleted`` first, and never remove a plain name.

Without inotify, or beyond its limit, the watch compares directories from time to time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
    FileSystemMovedEvent,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

from cleaner.events import Event
from storage.names import (
    DirState,
    FileKind,
    FileState,
    TopicPartition,
    parse_partition_dir_name,
    parse_segment_file_name,
)

_NAMES: Final = [DirCreatedEvent, DirDeletedEvent, DirMovedEvent, FileDeletedEvent, FileMovedEvent]
_FILE: Final = [FileCreatedEvent, FileMovedEvent, FileClosedEvent]
_POLLED_FILE: Final = [FileCreatedEvent, FileMovedEvent, FileModifiedEvent]
_Target = tuple[Path, FileSystemEventHandler, bool]
"""A directory, the handler of its events, and whether its subdirectories are watched, too."""
CONFIG_POLL_SECONDS: Final = 5.0
LOG_DIR_POLL_SECONDS: Final = 300.0
_SYMLINKS_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class Seen:
    """A change that another process made in a log dir."""

    event: Event
    """``PARTITION_APPEARED``, ``PARTITION_VANISHED``, or ``FILES_VANISHED``: by another way than ``.deleted``."""
    log_dir: Path
    topic_partition: TopicPartition


def meaning(log_dir: Path, event: FileSystemEvent) -> Iterable[Seen]:
    """Yield what an event below a log dir means; mostly nothing.

    Args:
        log_dir: the log dir that is watched.
        event: of a name in it, or one directory deeper.
    """
    source = _below(log_dir, event.src_path)
    target = _below(log_dir, event.dest_path) if isinstance(event, FileSystemMovedEvent) else ()
    if isinstance(event, FileDeletedEvent | FileMovedEvent):
        if len(source) == 2 and (partition := _live(source[0])) and _leaves_the_log(source[1], target[1:]):
            yield Seen(Event.FILES_VANISHED, log_dir, partition)
        return
    is_new = isinstance(event, DirCreatedEvent)
    came = _live(source[0]) if is_new and len(source) == 1 else _live(target[0]) if len(target) == 1 else None
    went = _live(source[0]) if not is_new and len(source) == 1 else None
    if went:
        yield Seen(Event.PARTITION_VANISHED, log_dir, went)
    if came:
        yield Seen(Event.PARTITION_APPEARED, log_dir, came)


def _below(log_dir: Path, path: bytes | str) -> tuple[str, ...]:
    """Return the parts of a path below the log dir; none if the path lies elsewhere."""
    text = path.decode(errors="surrogateescape") if isinstance(path, bytes) else path
    place = Path(text)
    return place.relative_to(log_dir).parts if text and place.is_relative_to(log_dir) else ()


def _live(name: str) -> TopicPartition | None:
    parsed = parse_partition_dir_name(name)
    return parsed.topic_partition if parsed and parsed.state is DirState.LIVE else None


def _leaves_the_log(name: str, target: tuple[str, ...]) -> bool:
    """Return whether a plain ``.log`` is gone, and no ``.deleted`` file waits in its place.

    Index files do not count: a recovery removes them behind their ``.log``.
    """
    file = parse_segment_file_name(name)
    if file is None or file.state is not FileState.PLAIN or file.kind is not FileKind.LOG:
        return False
    becomes = parse_segment_file_name(target[0]) if target else None
    return becomes is None or becomes.state is not FileState.DELETED


@dataclass(eq=False)
class Watch:
    """Watches until it is closed. It calls the three functions from a thread of its own."""

    on_config: Callable[[], None]
    """A configuration file was written, or replaced."""
    on_seen: Callable[[Seen], None]
    on_polling: Callable[[str], None]
    """Why inotify cannot be used; None if it can."""
    _observers: list[BaseObserver] = field(default_factory=list)
    _watched: tuple[frozenset[Path], tuple[Path, ...]] = frozenset(), ()

    def start(self, config_files: Iterable[Path], log_dirs: Iterable[Path]) -> None:
        """Watch these paths in place of the paths before. Keep the watches on paths that stay the same."""
        files, dirs = frozenset(config_files), tuple(log_dirs)
        if (files, dirs) == self._watched:
            return
        self.close()
        self._watched = files, dirs
        directories = sorted({path.parent for path in files})
        self._watch([(path, _Hears(self._on_file), False) for path in directories], _FILE, CONFIG_POLL_SECONDS)
        on_names = [(path, _Hears(partial(self._on_name, path)), True) for path in dirs]
        self._watch(on_names, _NAMES, LOG_DIR_POLL_SECONDS)

    def close(self) -> None:
        """Watch nothing any more."""
        for observer in self._observers:
            observer.stop()
        for observer in self._observers:
            observer.join()
        self._observers.clear()
        self._watched = frozenset(), ()

    def _on_file(self, event: FileSystemEvent) -> None:
        """Take an event of a directory with configuration files. Editors write other files there, too."""
        files, _ = self._watched
        paths = {Path(str(event.src_path)), Path(str(event.dest_path or event.src_path))}
        if any(paths.intersection(with_links(file)) for file in files):
            self.on_config()

    def _on_name(self, log_dir: Path, event: FileSystemEvent) -> None:
        for seen in meaning(log_dir, event):
            self.on_seen(seen)

    def _watch(
        self,
        watches: Sequence[_Target],
        events: list[type[FileSystemEvent]],
        poll_seconds: float,
    ) -> None:
        try:
            self._start(Observer(), watches, events)
        except OSError as error:
            self.on_polling(error.strerror or str(error))
            polled = _POLLED_FILE if events is _FILE else events
            with suppress(OSError):  # the directory is gone, and each turn tells so
                self._start(PollingObserver(timeout=poll_seconds), watches, polled)

    def _start(
        self,
        observer: BaseObserver,
        watches: Sequence[_Target],
        events: list[type[FileSystemEvent]],
    ) -> None:
        observer.start()
        try:
            for path, handler, is_deep in watches:
                observer.schedule(handler, path, recursive=is_deep, event_filter=events)
        except BaseException:
            observer.stop()
            observer.join()
            raise
        self._observers.append(observer)


def with_links(file: Path) -> Iterator[Path]:
    """Yield a file, and the symlinks beside it that lead to it.

    The kubelet replaces the files of a ConfigMap by such a symlink: ``logcleaner.toml`` leads to
    ``..data/logcleaner.toml``, and ``..data``, which alone is replaced, to the directory of the newest state.
    """
    yield file
    with suppress(OSError):  # no symlink, or no longer one
        for _ in range(_SYMLINKS_MAX):
            target = file.readlink()
            if target.is_absolute() or target.parts[0] == os.pardir:
                return
            file = file.parent / target.parts[0]
            yield file


class _Hears(FileSystemEventHandler):
    """A handler that passes every event on."""

    def __init__(self, hear: Callable[[FileSystemEvent], None]) -> None:
        self._hear = hear

    def on_any_event(self, event: FileSystemEvent) -> None:
        self._hear(event)
