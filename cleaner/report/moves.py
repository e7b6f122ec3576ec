"""The report of ``move``: text for people, ``logcleaner.move/1`` for machines. Also of ``restore --moves``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.report.page import Lines, Page
from policies.moving import MoveStep
from policies.reasons import counted, size

if TYPE_CHECKING:
    from cleaner.documents.changes import MoveDocument, MovedPartition
    from cleaner.engine.moving import Move

SCHEMA: Final = "logcleaner.move/1"
_NEXT: Final = (
    "A -stray directory stays until doctor --sweep takes it. Kafka before 3.7 does not start beside one.",
    "The broker tells the controller of the new log dir when it starts. If the old disk is dying, take its log dir out "
    "of log.dirs first.",
)


@dataclass(frozen=True, slots=True)
class MoveReport:
    """The moves of some partitions: planned, or done."""

    moves: Sequence[Move]
    target: str | None
    """The log dir that gets them; None for moves that are taken back."""
    dry_run: bool

    def document(self) -> MoveDocument:
        """Return what ``move --json`` prints."""
        partitions = [_document(move) for move in self.moves]
        return {"schema": SCHEMA, "dry_run": self.dry_run, "to_dir": self.target, "partitions": partitions}

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a paragraph for each partition, then what a broker does at its next start."""
        for move in self.moves:
            if move.error is None:
                _tell(move, page, would="would " if self.dry_run else "")
        moved = [move for move in self.moves if move.error is None and move.step is not MoveStep.NOTHING]
        if moved:
            for words in _NEXT:
                page.line(words, hanging=2)
        yield page.text


def _tell(move: Move, page: Page, would: str) -> None:
    name = str(move.topic_partition)
    if move.step is MoveStep.NOTHING:
        page.line(f"{name}  {move.target}", hanging=2)
        page.note("nothing to do: it is there already")
        return
    page.line(f"{name}  {move.source or 'nowhere else'} -> {move.target}", hanging=2)
    if move.step is MoveStep.COPY:
        checked = "" if move.records is None else f"; {counted(move.records, 'record')} read, every checksum is right"
        page.note(f"{counted(move.files, 'file')}, {size(move.size_bytes)} {would}move{'' if would else 'd'}{checked}")
    elif move.step is MoveStep.RETURN:
        read = "" if move.records is None else f"; {counted(move.records, 'record')} read, every checksum is right"
        page.note(f"the directory that an earlier move set aside {would}get{'' if would else 's'} its name back{read}")
    else:
        page.note(f"an earlier move was killed behind its copy: the rest {'would be' if would else 'is'} done")
    if move.left_out:
        indexes = counted(len(move.left_out), "index file")
        page.note(
            f"{indexes} {would or 'were '}{'be ' if would else ''}left out: the broker did not stop cleanly there,"
        )
        page.note("and the next start makes them anew of the logs")
    if move.set_aside is not None:
        kept = f"would become {move.topic_partition}.<unique id>-stray" if would else f"is now {move.set_aside}"
        page.note(f"the old directory {kept}")


def _document(move: Move) -> MovedPartition:
    return {
        "topic": move.topic_partition.topic,
        "partition": move.topic_partition.partition,
        "log_dir": move.source,
        "to_dir": move.target,
        "step": move.step,
        "done": move.is_done,
        "files": move.files,
        "bytes": move.size_bytes,
        "records": move.records,
        "set_aside": move.set_aside,
        "rebuilt": list(move.left_out),
        "error": move.error,
    }
