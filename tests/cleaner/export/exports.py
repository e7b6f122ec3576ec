"""Exports as lists of rows: what a reader of the file is given."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cleaner.cli.main import main

Row = dict[str, Any]


def export(partition: Path, to: str, file: Path, *options: str) -> list[Row]:
    """What the command writes of a partition, read back; bytes are bytes again."""
    assert main(["export", partition.name, "--to", to, str(file), "--log-dir", str(partition.parent), *options]) == 0
    if to == "parquet":
        return list(pq.read_table(file).to_pylist())
    return [row_of(line) for line in file.read_bytes().splitlines()]


def row_of(line: bytes) -> Row:
    row: Row = json.loads(line)
    row["headers"] = [decoded(header) for header in row["headers"]]
    return decoded(row)


def decoded(fields: Mapping[str, Any]) -> Row:
    told = {name: value for name, value in fields.items() if not name.endswith("Encoding")}
    return told | {name: bytes_of(fields[name], fields[f"{name}Encoding"]) for name in ("key", "value")}


def bytes_of(text: str | None, encoding: str | None) -> bytes | None:
    if text is None:
        assert encoding is None
        return None
    return {"utf-8": str.encode, "base64": base64.b64decode}[str(encoding)](text)
