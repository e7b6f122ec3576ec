"""Key filters of a partition's clean segments.

A round writes filters, so that later rounds need not read every segment.

The filters lie in the user's cache, not in the log dir. Without filters a round only takes longer. A round collects the
hashes of all surviving records in a file, source by source. It makes the filter of a segment once the segment is
swapped in.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Final, Self

import numpy as np

from cleaner.engine.clock import SystemClock
from cleaner.engine.compaction.fates import TRANSACTIONAL
from cleaner.engine.compaction.key_filter import (
    About,
    KeyFilter,
    format_key_filter,
    hashes_of,
    parse_about,
    parse_key_filter,
)
from cleaner.engine.compaction.key_map import KeyMap, Secret, new_secret, secret_of
from cleaner.engine.compaction.passes import NEVER_MS, Horizons, Span, Spared, Walk, Walked
from storage.arrays import Words
from storage.kernels.layout import CONTROL, DELETE_HORIZON
from storage.private_directory import UNFINISHED_SUFFIX, PrivateDirectory, cache_root
from storage.scan.page_cache import absent_ranges, let_go
from storage.scan.slices import Slice
from storage.segment import SegmentFile

SEGMENT_BYTES_MIN: Final = 8 << 20
"""The least size of a segment with a filter: reading a smaller segment takes no longer than asking a filter."""
KEYS_MAX: Final = 12_000_000
"""The most keys of a segment that get a filter: their hashes are sorted in memory."""
_BYTES_A_KEY: Final = 8
"""The size of a hash while it is collected."""
_PART_OF_FREE_SPACE: Final = 0.25
_SUFFIX: Final = ".keys"
_OWN_SUFFIXES: Final = _SUFFIX, UNFINISHED_SUFFIX
_DIRECTORY: Final = "keys"
_OF_A_PARTITION: Final = re.compile(r"[0-9a-f]{32}")
_UNUSED_DAYS_MAX: Final = 30
_ABOUT_BYTES: Final = 1024
NEVER_QUIET: Final = -1
"""The mark of a span that gets no filter, and whose hashes need not be collected."""


class Filters:
    """The key filters of one partition, through one round."""

    def __init__(self, directory: PrivateDirectory, horizons: Horizons) -> None:
        """Read the filters of earlier rounds.

        Args:
            directory: of the cache, for this partition alone; it is closed at the end of the round.
            horizons: of the round.

        Raises: OSError.
        """
        self._directory = directory
        self._horizons = horizons
        # Tombstones that get a horizon stay in this round, even if the horizon is now. Tombstones without a horizon
        # must be read in every round, because another delete.retention.ms may give them one.
        horizon_ms = horizons.new_ms
        self._quiet_without_horizon_until_ms = NEVER_QUIET if horizon_ms is None else horizon_ms
        self._about = {name: about for name in directory.names(_SUFFIX) if (about := _about(directory, name))}
        self.secret = _secret_of(self._about) or new_secret()
        """The secret of this round's hashes."""
        self._kept: set[str] = set()
        self._collected: IO[bytes] | None = directory.temporary()
        self._runs: dict[int, list[tuple[int, int]]] = {}
        """Base offset of a span -> position and bytes of its records' hashes in the file."""
        self._too_many: set[int] = set()
        """The base offsets of spans whose hashes are not all collected: they are too many."""
        free = os.statvfs(directory.descriptor)
        self._bytes_left = int(free.f_bavail * free.f_frsize * _PART_OF_FREE_SPACE)

    @classmethod
    def opened(cls, partition: Path, spans: Sequence[Span], horizons: Horizons) -> Self | None:
        """Return the filters of the partition in a directory; None if they are not worth it, or there is no cache."""
        if all(span.size_bytes < SEGMENT_BYTES_MIN for span in spans):
            return None
        with suppress(OSError, RuntimeError), ExitStack() as opened:
            directory = opened.enter_context(directory_of(partition))
            filters = cls(directory, horizons)
            opened.pop_all()
            return filters
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            with suppress(OSError):
                for name in self._directory.names(*_OWN_SUFFIXES):  # the holder of the lock is the only user
                    if name not in self._kept:
                        self._directory.remove(name)
        self._give_up()
        self._directory.close()

    def spare(self, spans: Sequence[Span], first_dirty_offset: int, key_map: KeyMap) -> tuple[Spared, ...]:
        """Return the spans that have none of the keys in the map, and in which nothing is due."""
        hashes: Words | None = None
        spared: list[Spared] = []
        for span in spans:
            name = _name_of(span.segment.log)
            about = self._about.get(name)
            if about is None or not self._speaks_of(about, span) or span.upper_offset > first_dirty_offset:
                continue
            if hashes is None:
                hashes = hashes_of(*key_map.hashes())
            found = _read(self._directory, name)
            if found is None or found.about != about or found.may_have_any(hashes):
                continue
            spared.append(Spared(span, about.records))
            self._kept.add(name)
        return tuple(spared)

    def _speaks_of(self, about: About, span: Span) -> bool:
        is_of_it = is_as_it_was(span.segment.log, about) and secret_of(about.secret) == self.secret
        return is_of_it and span.is_alone and self._horizons.now_ms < about.quiet_until_ms

    def quiet_until_ms(self, slice_: Slice) -> int:
        """Return the moment from which on a record of a slice may be due, epoch ms.

        Its tombstones were counted. NEVER_MS if no record will be due, NEVER_QUIET if a record may be due at any time.
        """
        table = slice_.table
        if slice_.is_legacy or (table["attributes"] & (CONTROL | TRANSACTIONAL)).any():
            return NEVER_QUIET
        with_tombstones = table[table["tombstones"] > 0]
        if not with_tombstones.size:
            return NEVER_MS
        has_horizon = (with_tombstones["attributes"] & DELETE_HORIZON) != 0
        horizons = with_tombstones["base_timestamp"][has_horizon]
        to_come = horizons[horizons > self._horizons.now_ms]  # the other tombstones go in this round
        until_ms = int(to_come.min(initial=NEVER_MS))
        return until_ms if has_horizon.all() else min(until_ms, self._quiet_without_horizon_until_ms)

    def add_mapped(self, walks: Sequence[Walk], key_map: KeyMap) -> None:
        """Note the hashes in the map, each with the span of its greatest ordinal.

        Args:
            walks: over the spans whose keys were mapped, ascending.
            key_map: with all keys of its range.
        """
        by_span = key_map.hashes([walk.start.ordinal for walk in walks[1:]])
        for walk, low_words in zip(walks, by_span, strict=True):
            self.add(walk, low_words)

    def settle(
        self, group: Sequence[Walked], log: SegmentFile, records: int, survivors: int, *, has_empty_batches: bool
    ) -> None:
        """Make the filter of the segment that a group became.

        Args:
            group: walked over.
            log: the ``.log`` of the segment, in its place; the group's only segment, or a new one.
            records: in the segment.
            survivors: of pass 1: these records, and tombstones that expired. If a hash was not noted, there is no
                filter.
            has_empty_batches: empty batches may be due at any time.
        """
        quiet_until_ms = min(walked.quiet_until_ms for walked in group)
        if self._collected is None or has_empty_batches or quiet_until_ms <= self._horizons.now_ms:
            return
        if any(walked.span.base_offset in self._too_many for walked in group):
            return
        if log.size_bytes < SEGMENT_BYTES_MIN or records > KEYS_MAX:
            return
        try:
            low_words = self._collected_of(group)
            if low_words.size == survivors:
                secret = int(self.secret[0]), int(self.secret[1])
                about = About(secret, log.identity, log.changed_ns, quiet_until_ms, records, low_words.size)
                self._write(_name_of(log), KeyFilter.of(about, hashes_of(low_words)))
        except OSError:
            self._give_up()

    def add(self, walk: Walk, low_words: Words) -> None:
        """Note the hashes of the records that stay in the span of a walk."""
        base_offset = walk.span.base_offset
        if walk.quiet_until_ms == NEVER_QUIET or base_offset in self._too_many:
            return
        if self._collected is None or not low_words.size:
            return
        runs = self._runs.setdefault(base_offset, [])
        if sum(size for _, size in runs) + low_words.nbytes > _BYTES_A_KEY * KEYS_MAX:
            self._too_many.add(base_offset)
            return
        self._bytes_left -= low_words.nbytes
        if self._bytes_left < 0:
            self._give_up()
            return
        try:
            runs.append((self._collected.tell(), low_words.nbytes))
            self._collected.write(low_words.data)
        except OSError:
            self._give_up()

    def _collected_of(self, group: Sequence[Walked]) -> Words:
        assert self._collected is not None
        self._collected.flush()
        runs = [run for walked in group for run in self._runs.pop(walked.span.base_offset, ())]
        low_words = np.empty(sum(size for _, size in runs) // _BYTES_A_KEY, np.uint64)
        view, filled = low_words.view(np.uint8), 0
        for position, size in runs:
            if os.preadv(self._collected.fileno(), [view[filled : filled + size].data], position) != size:
                raise OSError
            filled += size
        return low_words

    def _write(self, name: str, key_filter: KeyFilter) -> None:
        """Write a filter whole or not at all. After a crash, it does not match its checksum, or its name."""
        self._directory.write(name, (part.data for part in format_key_filter(key_filter)))
        self._kept.add(name)

    def _give_up(self) -> None:
        """Make no further filters."""
        if self._collected is not None:
            with suppress(OSError):
                self._collected.close()
            self._collected = None


def directory_of(partition: Path) -> PrivateDirectory:
    """Open the partition's directory in the cache; make it if it is missing, and then remove filters that were not used
    for long.

    Raises: OSError, also where another user could change the cache; RuntimeError without a home directory.
    """
    name = hashlib.sha256(os.fsencode(partition.resolve())).hexdigest()[:32]
    with PrivateDirectory.open(cache_root(), _DIRECTORY) as root:
        if name not in root.names():
            _sweep(root)
        directory = root.level(name)
    os.utime(directory.descriptor)
    return directory


def forget_filters(partition: Path) -> None:
    """Remove the filters of a partition: their hashes would still tell of keys that an erasure took out."""
    with suppress(OSError, RuntimeError), directory_of(partition) as directory:
        for name in directory.names(*_OWN_SUFFIXES):
            directory.remove(name)


def _sweep(root: PrivateDirectory) -> None:
    """Remove the filters of partitions that were not cleaned for long. Files with other names stay."""
    unused_since_ms = SystemClock().now_ms() - _UNUSED_DAYS_MAX * 86_400_000
    for name in filter(_OF_A_PARTITION.fullmatch, root.names()):
        with suppress(OSError), root.level(name) as directory:
            if os.fstat(directory.descriptor).st_mtime_ns // 1_000_000 < unused_since_ms:
                for own in directory.names(*_OWN_SUFFIXES):
                    directory.remove(own)
                os.rmdir(name, dir_fd=root.descriptor)


def is_as_it_was(log: SegmentFile, about: About) -> bool:
    """Return whether a file is still the one that the filter describes, without a write, rename or copy since."""
    return (log.identity, log.changed_ns) == (about.log, about.changed_ns)


def _name_of(log: SegmentFile) -> str:
    return f"{log.path.stem}{_SUFFIX}"


def _about(directory: PrivateDirectory, name: str) -> About | None:
    with suppress(OSError), directory.open_to_read(name) as file:
        return parse_about(file.read(_ABOUT_BYTES))
    return None


def _read(directory: PrivateDirectory, name: str) -> KeyFilter | None:
    """Read a filter, and leave the page cache as it was."""
    with suppress(OSError), directory.open_to_read(name) as file:
        absent = absent_ranges(file.fileno(), 0, os.fstat(file.fileno()).st_size)
        data = np.fromfile(file, np.uint8)
        let_go(file.fileno(), absent)
        return parse_key_filter(data)
    return None


def _secret_of(abouts: dict[str, About]) -> Secret | None:
    """Return the secret of the most filters: filters with another secret cannot be used."""
    secrets = Counter(secret_of(about.secret) for about in abouts.values())
    return secrets.most_common(1)[0][0] if secrets else None
