"""Damage as values: what is done to which file, so that a finding can be repeated from what was printed of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final
from zlib import crc32

from crc32c import crc32c

BLOCK_BYTES: Final = 512
_HEADER_BYTES: Final = 61


class Kind(StrEnum):
    """What happens to disks, and what a hostile writer does."""

    FLIP = "flip"
    """One bit."""
    SET = "set"
    """One byte."""
    TRUNCATE = "truncate"
    EXTEND = "extend"
    """By what the file begins with, by zeros, or by ones."""
    ZERO = "zero"
    """A block."""
    SWAP = "swap"
    """Two blocks."""
    RESEAL = "reseal"
    """One byte of a batch, and the checksum made right again."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage. ``position`` is taken modulo the file's size, ``value`` is a bit, a byte or another position."""

    file: str
    kind: Kind
    position: int
    value: int

    def apply(self, root: Path) -> None:
        """Do it; size may change, times do not."""
        path = root / self.file
        status = path.stat()
        data = bytearray(path.read_bytes())
        path.write_bytes(self.done_to(data))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def done_to(self, data: bytearray) -> bytes:
        """The bytes afterwards."""
        if not data:
            return bytes(self.value % 100) if self.kind is Kind.EXTEND else b""
        at = self.position % len(data)
        match self.kind:
            case Kind.FLIP:
                data[at] ^= 1 << self.value % 8
            case Kind.SET:
                data[at] = self.value % 256
            case Kind.TRUNCATE:
                del data[at:]
            case Kind.EXTEND:
                data += (data[:at], bytes(at), b"\xff" * at)[self.value % 3]
            case Kind.ZERO:
                start = at - at % BLOCK_BYTES
                data[start : start + BLOCK_BYTES] = bytes(len(data[start : start + BLOCK_BYTES]))
            case Kind.SWAP:
                _swap_blocks(data, at, self.value % len(data))
            case Kind.RESEAL:
                _reseal(data, at, self.value)
        return bytes(data)


def drawn(random: Random, files: Sequence[str]) -> list[Damage]:
    """One to three damages, mostly one, mostly to one file."""
    file = random.choice(files)
    count = random.choice((1, 1, 1, 2, 3))
    return [
        Damage(
            file if random.random() < 0.8 else random.choice(files),
            random.choice(list(Kind)),
            random.choice((random.randrange(1 << 20), random.randrange(64))),
            random.choice((random.randrange(1 << 20), 0, 0x7F, 0x80, 0xFF)),
        )
        for _ in range(count)
    ]


def _swap_blocks(data: bytearray, one: int, other: int) -> None:
    first, second = (at - at % BLOCK_BYTES for at in sorted((one, other)))
    size = min(BLOCK_BYTES, len(data) - second)
    data[first : first + size], data[second : second + size] = (
        data[second : second + size],
        data[first : first + size],
    )


def _reseal(data: bytearray, at: int, value: int) -> None:
    """Damage within the batch at ``at`` that no checksum tells: a byte of what the checksum covers, or its length."""
    start, size = _batch_around(data, at)
    if size == 0:
        data[at] = value % 256
        return
    is_v2 = data[start + 16] == 2
    covered = start + (21 if is_v2 else 16)
    data[max(at, covered)] = value % 256
    if is_v2:
        data[start + 17 : start + 21] = crc32c(bytes(data[covered : start + size])).to_bytes(4, "big")
    else:
        data[start + 12 : start + 16] = crc32(bytes(data[covered : start + size])).to_bytes(4, "big")


def _batch_around(data: bytearray, at: int) -> tuple[int, int]:
    """Return start and size of the batch that holds a byte; size 0 if no batch does."""
    start = 0
    while len(data) - start > _HEADER_BYTES // 2:
        size = int.from_bytes(data[start + 8 : start + 12], "big") + 12
        if not 26 <= size <= len(data) - start or data[start + 16] > 2:
            break
        if at < start + size:
            return start, size
        start += size
    return 0, 0
