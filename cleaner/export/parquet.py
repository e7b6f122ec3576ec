"""Parquet: the columns of the Spark source, made by the same kernels. No other module here needs pyarrow."""

from __future__ import annotations

from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cleaner.arrow.columns import record_batches
from cleaner.arrow.schema import BATCH_COLUMNS, RECORD_COLUMNS, arrow_schema
from storage.scan.chunks import Chunk
from storage.scan.extents import Extent

ROW_GROUP_BYTES: Final = 64 << 20
"""The size of a row group in memory, before encoding. The writer holds about this much unwritten at most."""


class ParquetWriter:
    """Collects records, and writes a row group for each 64 MiB of them."""

    def __init__(self, file: BinaryIO, *, with_metadata: bool) -> None:
        self._schema = arrow_schema(RECORD_COLUMNS + (BATCH_COLUMNS if with_metadata else ()))
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd", write_page_checksum=True)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def write(self, chunk: Chunk, extent: Extent) -> None:
        """Take the records of a chunk. Raises: OSError."""
        for batch in record_batches(chunk, extent, self._schema):
            self._held.append(batch)
            self._held_bytes += batch.nbytes
            if self._held_bytes >= ROW_GROUP_BYTES:
                self._write_row_group()

    def finish(self) -> None:
        """Write the last row group and the footer. Raises: OSError."""
        if self._held:
            self._write_row_group()
        self._writer.close()

    def abandon(self) -> None:
        """Stop pyarrow's writer: on its deletion it would write a footer to a closed file, and complain about that."""
        self._writer.is_open = False

    def _write_row_group(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._held, self._schema))
        self._held, self._held_bytes = [], 0
