"""The page of an explanation, made of its document: ``logcleaner.explain/1`` with ``report``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cleaner.printable import printable
from cleaner.report.html.charts import reason_bars
from cleaner.report.html.content import Column, DataTable, Headline, Kind, Packer, PageContent, Remark, columns_of
from policies.reasons import counted, moment, size

Document = Mapping[str, Any]
_CONTENTS: Final = ("records", "batches", "transactional_batches", "control_batches", "producers")


def content_of(document: Document) -> PageContent:
    """Return the page of an explanation."""
    report, partitions = document["report"], document["partitions"]
    readable = [partition for partition in partitions if partition["error"] is None]
    packer = Packer()
    for partition in readable:
        packer.add({**partition, "segments": [_told(segment) for segment in partition["segments"]]})
    name = printable(f"{partitions[0]['topic']}-{partitions[0]['partition']}")
    shares = [(_name(one, readable), one["reasons"]) for one in report["partitions"]]
    caption = "What goes stands first. What is kept by a reason that blocks is told under Findings, with its remedy."
    chart = reason_bars("reasons", "Bytes, and what becomes of them", caption, shares, "Partition", would=True)
    return PageContent(
        title=f"{name}, explained by logcleaner",
        heading=f"Why segments of {name} stay",
        sentence=printable(report["sentence"]),
        headlines=tuple(_headlines(report, readable)),
        charts=(chart,) if chart else (),
        remarks=tuple(remark for partition in readable for remark in _remarks(partition)),
        tables=tuple(_tables(document, readable)),
        report=report,
        now_ms=document["now"],
        segments=packer.packed(),
        notes=tuple(_problems(partitions)),
    )


def _name(one: Document, partitions: Sequence[Document]) -> str:
    name = f"{one['topic']}-{one['partition']}"
    return name if len(partitions) == 1 else f"{name} in {one['log_dir']}"


def _told(segment: Document) -> Document:
    """Return a segment in the form of a plan. Its sentence joins those of retention and compaction."""
    reason, rules = segment["reason"], segment["rules"]
    said = "; ".join(f"{rule['rule']}: {rule['text']}" for rule in rules) or reason["text"]
    return {**segment, "reason": {**reason, "text": said, "until_ms": segment["expires_ms"]}}


def _problems(partitions: Sequence[Document]) -> Iterator[str]:
    for partition in partitions:
        if partition["error"] is not None:
            yield printable(f"{partition['log_dir']}: {partition['error']}")
        for problem in partition.get("problems", ()):
            yield printable(f"Not known, because it cannot be read: {problem}")


def _headlines(report: Document, partitions: Sequence[Document]) -> Iterator[Headline]:
    if not partitions:
        return
    first, totals = partitions[0], report["totals"]
    if first["disk_bytes"] is not None:
        yield Headline("On disk now", size(first["disk_bytes"]), "all files of the directory", first["disk_bytes"])
    else:
        yield Headline("Size", size(first["bytes"]), ".log files", first["bytes"])
    goes = counted(totals["deleted_segments"], "segment")
    yield Headline("Deleted by clean now", size(totals["deleted_bytes"]), goes, totals["deleted_bytes"])
    changes = [change for change in first["changes"] if change["bytes"]]
    if changes:
        change = changes[0]
        yield Headline(
            "Changes next", size(change["bytes"]), f"{change['code']} at {moment(change['at_ms'])}", change["bytes"]
        )
    else:
        yield Headline("Changes next", "nothing", "as long as nobody writes")
    blocked = max(
        (blocker for blocker in first["blockers"] if blocker["bytes"]), key=lambda b: b["bytes"], default=None
    )
    if blocked:
        yield Headline("Kept by what blocks", size(blocked["bytes"]), blocked["code"], blocked["bytes"])
    else:
        yield Headline("Kept by what blocks", "nothing", "nothing blocks here")


def _remarks(partition: Document) -> Iterator[Remark]:
    for blocker in partition["blockers"]:
        first, last = blocker["first_base_offset"], blocker["last_base_offset"]
        where = "" if first is None else f"segment {first}" if first == last else f"segments {first} to {last}"
        yield Remark(
            blocker["code"], where, printable(blocker["text"]), printable(blocker["remedy"]),
            printable(blocker["owner"]), blocker["bytes"], blocker["until_ms"],
        )  # fmt: skip


def _tables(document: Document, partitions: Sequence[Document]) -> Iterator[DataTable]:
    if not partitions:
        return
    yield _segments_table(partitions, document["report"]["partitions"])
    for partition in partitions:
        if partition["changes"]:
            yield _changes_table(partition)
        if partition["chosen"]:
            yield _files_table(partition["chosen"])
            yield _contents_table(partition["chosen"])
        yield _config_table(partition["config"])
        return  # the other log dirs have the same configuration; their segments are in the first table


def _segments_table(partitions: Sequence[Document], sums: Sequence[Document]) -> DataTable:
    of = columns_of(
        partitions, ("log_dir", "bytes", "log_start_offset", "log_end_offset", "high_watermark", "dirty_ratio")
    )
    summed = columns_of(sums, ("segments", "deleted_bytes"))
    columns = (
        Column("Partition", Kind.NAME, [printable(f"{p['topic']}-{p['partition']}") for p in partitions]),
        Column("Log dir", Kind.TEXT, [printable(path) for path in of["log_dir"]]),
        Column("Segments", Kind.NUMBER, summed["segments"]),
        Column("Size", Kind.BYTES, of["bytes"]),
        Column("Delete", Kind.BYTES, summed["deleted_bytes"]),
        Column("Start", Kind.NUMBER, of["log_start_offset"]),
        Column("End", Kind.NUMBER, of["log_end_offset"]),
        Column("High watermark", Kind.NUMBER, of["high_watermark"]),
        Column("Dirty", Kind.RATIO, of["dirty_ratio"]),
    )
    return DataTable(
        "segments", "Segments", "On a time axis, and with what each rule says of them.", columns, "segments"
    )


def _changes_table(partition: Document) -> DataTable:
    of = columns_of(partition["changes"], ("at_ms", "code", "text", "bytes"))
    columns = (
        Column("When", Kind.MOMENT, of["at_ms"]),
        Column("What", Kind.CODE, of["code"]),
        Column("In words", Kind.TEXT, [printable(text) for text in of["text"]]),
        Column("Size", Kind.BYTES, of["bytes"]),
    )
    return DataTable(
        "changes", "What changes by itself", "If nobody changes a file or the configuration before.", columns
    )


def _files_table(chosen: Document) -> DataTable:
    of = columns_of(chosen["files"], ("name", "bytes", "disk_bytes", "links"))
    columns = (
        Column("File", Kind.NAME, [printable(name) for name in of["name"]]),
        Column("Size", Kind.BYTES, of["bytes"], True),
        Column("On disk", Kind.BYTES, of["disk_bytes"], True),
        Column("Hard links", Kind.NUMBER, of["links"]),
    )
    return DataTable("files", "Files of the segment", "A file with more than one hard link frees nothing.", columns)


def _contents_table(chosen: Document) -> DataTable:
    found = [(name.replace("_", " "), chosen[name]) for name in _CONTENTS]
    columns = (
        Column("What", Kind.TEXT, [name for name, _ in found]),
        Column("Number", Kind.NUMBER, [v for _, v in found]),
    )
    return DataTable("contents", "Contents of the segment", "What its batches hold.", columns)


def _config_table(config: Document) -> DataTable:
    rows = [{"key": key, **stated} for key, stated in config.items()]
    of = columns_of(rows, ("key", "value", "layer", "file", "line"))
    columns = (
        Column("Key", Kind.WORD, of["key"]),
        Column("Value", Kind.WORD, ["" if value is None else str(value) for value in of["value"]]),
        Column("Stated by", Kind.TEXT, of["layer"]),
        Column("File", Kind.TEXT, [printable(file or "") for file in of["file"]]),
        Column("Line", Kind.NUMBER, of["line"]),
    )
    return DataTable(
        "configuration", "Configuration", "The keys that decide, in Kafka's units, and who states them.", columns
    )
