"""``dump`` over damaged files of every kind, also under other names: lines or an error, and never a crash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from cleaner.dump.dumping import dump
from cleaner.dump.files import recognised
from cleaner.dump.options import DumpOptions, Redaction, TopicDecoder
from storage.errors import LogCleanerError
from storage.scan.selected import RecordSelection
from tests.cleaner.dump.batches import random_log

_OPTIONS: Final = (
    DumpOptions(),
    DumpOptions(deep_iteration=True),
    DumpOptions(print_data_log=True),
    DumpOptions(print_data_log=True, skip_record_metadata=True, redact=frozenset(Redaction)),
    DumpOptions(selection=RecordSelection(5, 900, key=b"k")),
    DumpOptions(verify_index_only=True, max_bytes=300, max_message_size=100),
    DumpOptions(index_sanity_check=True),
    *(DumpOptions(decoder=decoder) for decoder in TopicDecoder),
)


class Dumper:
    """The files of a log dir, and a directory for the damaged ones."""

    def __init__(self, log_dir: Path, scratch: Path) -> None:
        self._files = [path for path in sorted(log_dir.rglob("*")) if path.is_file() and recognised(path)]
        self._scratch = scratch / "dumped"
        self._scratch.mkdir()

    def try_damaged(self, random: Random) -> None:
        """Damage the files of one segment, or give a file another name, and show them in every way."""
        chosen = random.choice(self._files)
        together = [path for path in self._files if path.parent == chosen.parent and path.stem == chosen.stem]
        for path in together:
            self._write(path.name, _damaged(path.read_bytes(), random), random)
        self._write(f"{0:020d}.log", _damaged(random_log(random.randrange(50), 6), random), random)
        self._show(sorted(self._scratch.iterdir()), random)
        for path in self._scratch.iterdir():
            path.unlink()

    def _write(self, name: str, data: bytes, random: Random) -> None:
        if random.random() < 0.05:
            name = random.choice(self._files).name
        (self._scratch / name).write_bytes(data)

    def _show(self, paths: Sequence[Path], random: Random) -> None:
        files = [file for path in paths if (file := recognised(path))]
        options, as_json, out = random.choice(_OPTIONS), random.random() < 0.5, bytearray()
        failures: list[str] = []

        def failed(error: LogCleanerError) -> None:
            failures.append(str(error))  # the error itself would keep the buffers of its traceback

        told = dump(files, options, out.extend, failed, as_json=as_json)
        assert all(failures)
        assert all(isinstance(line, str) for line in told)
        if as_json:
            assert all(isinstance(json.loads(line), dict) for line in bytes(out).splitlines())


def _damaged(data: bytes, random: Random) -> bytes:
    if not data:
        return random.randbytes(random.randrange(64))
    damaged = bytearray(data)
    for _ in range(random.choice((0, 1, 2, 8))):
        damaged[random.randrange(len(damaged))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))
    return bytes(damaged[: random.randint(0, len(damaged))]) if random.random() < 0.3 else bytes(damaged)
