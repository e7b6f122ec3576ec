"""Write an analysis as Parquet: a directory for each table, with a file for each run. Files of earlier runs stay."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from cleaner.errors import as_unwritable
from cleaner.report.findings import TABLES, Analysis, AnalysisRow

_TYPES: Final[dict[type, pa.DataType]] = {
    int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(),
}  # fmt: skip
_MOMENT: Final = pa.timestamp("ms", tz="UTC")


def write_tables(analysis: Analysis, output: Path) -> None:
    """Write ``output/TABLE/MOMENT.parquet`` for each table, even without rows. ``analyzed_at`` tells the runs apart.

    Raises: UnwritableFile.
    """
    name = f"{datetime.fromtimestamp(analysis.now_ms / 1000, UTC):%Y%m%dT%H%M%S}Z.parquet"
    for table, kind in TABLES.items():
        path = output / table / name
        with as_unwritable(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, _arrow(table, kind, analysis))


def _write(path: Path, table: pa.Table) -> None:
    """Write a file that readers of the directory see whole or not at all: they ignore names with a leading dot."""
    hidden = path.with_name(f".{path.name}")
    pq.write_table(table, hidden)
    hidden.replace(path)


def _arrow(name: str, kind: type[AnalysisRow], analysis: Analysis) -> pa.Table:
    hints = get_type_hints(kind)
    columns = [pa.field(field.name, _type(hints[field.name])) for field in fields(kind)]
    rows = [{**asdict(row), "analyzed_at": analysis.now_ms} for row in analysis.tables[name]]
    return pa.Table.from_pylist(rows, pa.schema([*columns, pa.field("analyzed_at", _MOMENT)]))


def _type(hint: Any) -> pa.DataType:
    return _TYPES[next(iter(get_args(hint)), hint)]
