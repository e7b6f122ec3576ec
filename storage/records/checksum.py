"""The checksum of a batch: computed, compared and written here, readably. The kernels do it in ``storage.kernels.crc``.

A batch of version 2 states the CRC-32C of all behind it, a message of version 0 or 1 the CRC-32.

Source: Kafka ``DefaultRecordBatch.ensureValid``, ``LegacyRecord.ensureValid``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from typing import Final

from storage.records.header import CRC_POSITION, CRC_START, LOG_OVERHEAD_BYTES, MAGIC_POSITION, MAGIC_V2

_CRC: Final = struct.Struct(">I")


def agrees(data: bytes | memoryview, magic: int, behind: Iterable[bytes] = ()) -> bool:
    """Return whether the checksum that a batch states is that of its bytes.

    Args:
        data: the batch, at least so many bytes as the shortest message has.
        magic: its version; as in Kafka, what is below 2 is a message.
        behind: what follows ``data`` of a batch that comes in pieces.
    """
    is_v2 = magic >= MAGIC_V2
    stated_at, start = (CRC_POSITION, CRC_START) if is_v2 else (LOG_OVERHEAD_BYTES, MAGIC_POSITION)
    view = memoryview(data)
    crc = _sum_up(view[start:], 0, is_v2=is_v2)
    for piece in behind:
        crc = _sum_up(piece, crc, is_v2=is_v2)
    return bool(crc == _CRC.unpack_from(view, stated_at)[0])


def seal(batch: bytearray) -> None:
    """Write the checksum of a batch of version 2 into its place."""
    _CRC.pack_into(batch, CRC_POSITION, _sum_up(memoryview(batch)[CRC_START:], 0, is_v2=True))


def _sum_up(data: bytes | memoryview, crc: int, *, is_v2: bool) -> int:
    if not is_v2:
        return zlib.crc32(data, crc)
    from crc32c import crc32c  # noqa: PLC0415 - a run that reads no batch does without

    return crc32c(data, crc)
