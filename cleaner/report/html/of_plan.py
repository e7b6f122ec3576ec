"""The page of a plan, made of its document: ``logcleaner.plan/1`` with ``report``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from cleaner.printable import printable
from cleaner.report.html.charts import Series, curve, growth_areas, marks_of, reason_bars, shares, stacked_bars
from cleaner.report.html.content import (
    Chart,
    ChartTable,
    Column,
    DataTable,
    Headline,
    Kind,
    Packer,
    PageContent,
    Remark,
    columns_of,
)
from cleaner.report.runs import NOT_DONE
from cleaner.report.runways import in_part, without
from policies.reasons import counted, duration, moment, size

Document = Mapping[str, Any]
_DAY_MS: Final = 86_400_000
_MARKS_MAX: Final = 4
_FAILURES_MAX: Final = 10
"""The most failed partitions that stand on top; the table of partitions has all."""


def content_of(document: Document) -> PageContent:
    """Return the page of a plan."""
    report, now_ms = document["report"], document["now"]
    packer = Packer()
    for partition in document["partitions"]:
        packer.add(partition if document["dry_run"] else _as_done(partition))
    would = document["dry_run"]
    heading = (
        "Dry run: what clean would do"
        if would
        else "What clean did: charts and tables show what was there before, and what became of it"
    )
    return PageContent(
        title=f"logcleaner {'dry run' if would else 'run'}, {moment(now_ms)}",
        heading=heading,
        sentence=report["sentence"],
        headlines=tuple(_headlines(document)),
        charts=tuple(chart for chart in _charts(document) if chart),
        remarks=tuple(_remarks(report["findings"])),
        remarks_left_out=report["findings_left_out"],
        tables=tuple(_tables(document)),
        report=report,
        now_ms=now_ms,
        segments=packer.packed(),
        notes=tuple(_notes(document)),
    )


def _notes(document: Document) -> Iterator[str]:
    yield from map(printable, document.get("errors", ()))
    failed = [partition for partition in document["partitions"] if partition["error"]]
    for partition in failed[:_FAILURES_MAX]:
        yield printable(f"{partition['topic']}-{partition['partition']}: {partition['error']}")


def _as_done(partition: Document) -> Document:
    """Return a partition whose segments show what was done: a segment whose step was not done is kept."""
    result = partition["result"] or {"deleted_segments": 0, "compacted_from_bytes": 0}
    segments = []
    for place, segment in enumerate(partition["segments"]):
        was = {"delete": place < result["deleted_segments"], "compact": result["compacted_from_bytes"] > 0}
        if was.get(segment["action"], True):
            segments.append(segment)
        else:
            segments.append({**segment, "action": "keep", "reason": {**segment["reason"], "code": NOT_DONE}})
    return {**partition, "segments": segments}


def _headlines(document: Document) -> Iterator[Headline]:
    report = document["report"]
    totals, later = report["totals"], report["later"]
    there = f"{counted(totals['partitions'], 'partition')} of {counted(totals['topics'], 'topic')}"
    yield Headline("On disk now", size(totals["bytes_now"]), f"blocks of {there}", totals["bytes_now"])
    yield Headline("Freed by this run", report["freed"], _freed_when(report), totals["freed_at_once_bytes"])
    if later["first_ms"] is None:
        note = "time alone lets nothing more go"
    else:
        first = f"{size(later['first_bytes'])} at {moment(later['first_ms'])}"
        note = f"within {later['days']} days by time; the first {first}"
    yield Headline("Freed later", size(later["bytes"]), note, later["bytes"])
    yield _runway(report["runway"])


def _freed_when(report: Document) -> str:
    """Return the freed bytes with their times, and the figures that are not known."""
    amount, _, when = report["freed"].removeprefix("at least ").partition(" in ")
    note = report["freed_when"].removeprefix(f"{amount} " if when else "").removeprefix("or more ") or "nothing goes"
    if not report["totals"]["is_estimate"]:
        return note
    return (
        f"{note}. Compactions save more, unless many records without a key hold them back (max.unkeyed.ratio); --exact "
        "reads how much"
    )


def _runway(runways: Sequence[Document]) -> Headline:
    """Return the headline of the file system that is full first."""
    label = "Disk full"
    known = [runway for runway in runways if runway["fills"]]
    counting = sum(runway["partitions"] for runway in runways)
    if not counting:
        return Headline(label, "not known", "no partition says how much is written")
    left_out = sum(runway["partitions_left_out"] for runway in runways)
    rest = f", {without(left_out)}" if left_out else ""
    rates = sum(runway["written_bytes_per_day"] for runway in runways)
    if not known and left_out:
        told = f"not by {in_part(counting, left_out)}: retention keeps up with their {size(rates)} a day"
        return Headline(label, "not known", f"{told}; the growth of the others is not known")
    if not known:
        return Headline(label, "never", f"retention keeps up with {size(rates)} a day")
    first = min(known, key=lambda runway: runway["days"])
    when = "now" if first["days"] * _DAY_MS < 60_000 else f"in {duration(round(first['days'] * _DAY_MS))}"
    rate, free = size(first["written_bytes_per_day"]), size(first["free_bytes"])
    where = f" ({', '.join(map(printable, first['log_dirs']))})" if len(runways) > 1 else ""
    return Headline(label, when, f"at {rate} a day{rest}; {free} are free{where}", first["days"])


def _charts(document: Document) -> Iterator[Chart | None]:
    report = document["report"]
    yield _by_topic(report, would=document["dry_run"])
    yield _growth(report["growth"])
    if report["retention_curve"]:
        yield _curve(report["retention_curve"], document.get("what_if", ()))
    yield _later(report["later"])
    yield _dirty(report["topics"])


def _by_topic(report: Document, *, would: bool) -> Chart | None:
    topics = sorted(report["topics"], key=lambda topic: -topic["bytes"])
    caption = (
        "What goes stands first. To keep more, raise the limit that the reason names; to free more, look for the "
        "longest kept bars, and at what another retention.ms would keep."
    )
    shares_of = [(topic["topic"], topic["reasons"]) for topic in topics]
    title = "Bytes by topic, and what becomes of them"
    return reason_bars("by-topic", title, caption, shares_of, "Topic", would=would)


def _growth(growth: Document) -> Chart | None:
    rest = f" {size(growth['older_bytes'])} are older." if growth["older_bytes"] else ""
    if growth["undated_bytes"]:
        rest += f" Of {size(growth['undated_bytes'])} nobody knows the day, such as of the oldest segment of a log."
    caption = (
        "What is there today, by the day on which it was written; what retention and compaction removed is not in it."
        f"{rest} A day that stands out has a producer to ask about."
    )
    return growth_areas("growth", "Growth by day", caption, growth)


def _curve(found: Document, what_if: Sequence[Document]) -> Chart:
    asked = [
        answer["value"]
        for question in what_if
        for answer in question["answers"]
        if question["key"] == "retention.ms" and isinstance(answer["value"], int) and answer["value"] >= 0
    ]
    places = [(place["limit_ms"], place["kept_bytes"]) for place in found["places"]]
    last = places[-1][0]
    in_force = [one["limit_ms"] for one in found["in_force"]]
    told = [(limit, "in force", "mark-now") for limit in in_force[:_MARKS_MAX]]
    told += [(limit, "what if", "asked") for limit in dict.fromkeys(asked) if limit not in in_force]
    caption = (
        "The .log and index files of all topics, if every topic that deletes had this retention.ms. Where the line is "
        "steep, a shorter limit frees much; check a value with --what-if retention.ms=VALUE before you set it."
    )
    table = ChartTable(
        ("retention.ms", "Kept", "Freed now"),
        tuple((duration(p["limit_ms"]), p["kept_bytes"], p["freed_bytes"]) for p in found["round"]),
    )
    marks = sorted(marks_of([one for one in told if one[0] <= last]), key=lambda mark: mark.limit)
    return curve("curve", "What another retention.ms would keep", caption, places, marks, table)


def _later(later: Document) -> Chart | None:
    days = later["by_day"]
    caption = (
        "What time retention lets go in the days to come, beyond this run. If the disk is full before, a run of "
        "logcleaner free, or a shorter limit, makes space sooner."
    )
    series = [Series("expires", "delete-2", [day["bytes"] for day in days])]
    return stacked_bars("later", "What goes later, by day", caption, [day["day"] for day in days][:15],
                        [series[0]._replace(values=series[0].values[:15])], "Day (UTC)")  # fmt: skip


def _dirty(topics: Sequence[Document]) -> Chart | None:
    found = sorted((t for t in topics if t["dirty_ratio"] is not None), key=lambda t: (-t["dirty_ratio"], -t["bytes"]))
    caption = (
        "The share of bytes that were never compacted. A bar that reaches its mark, min.cleanable.dirty.ratio, is "
        "compacted by this run; lower the ratio for a topic that stays below it and is large."
    )
    return shares(
        "dirty", "Dirty share by topic", caption, [topic["topic"] for topic in found],
        [topic["dirty_ratio"] for topic in found], [topic["min_cleanable_dirty_ratio"] for topic in found],
    )  # fmt: skip


def _remarks(findings: Sequence[Document]) -> Iterator[Remark]:
    for finding in findings:
        where = "" if finding["topic"] is None else f"{finding['topic']}-{finding['partition']}"
        place = " in ".join(filter(None, [where, finding["log_dir"] or ""]))
        yield Remark(
            finding["code"], printable(place), printable(finding["text"]), printable(finding["remedy"] or ""),
            printable(finding["owner"] or ""), finding["bytes"], finding["until_ms"],
        )  # fmt: skip


def _tables(document: Document) -> Iterator[DataTable]:
    report = document["report"]
    yield _topics_table(report["topics"])
    if report["retention_curve"]:
        yield _limits_table(report["retention_curve"]["round"])
    if answers := list(_answers(document.get("what_if", ()))):
        yield _what_if_table(answers)
    yield _partitions_table(document["partitions"], report["partitions"], several=len(document["log_dirs"]) > 1)
    yield _reasons_table(report["reasons"])


def _named(values: Sequence[str | None]) -> list[str]:
    return [printable(value or "") for value in values]


def _topics_table(topics: Sequence[Document]) -> DataTable:
    names = ("topic", "cleanup_policy", "partitions", "segments", "bytes", "deleted_bytes", "compacted_bytes",
             "kept_bytes", "later_bytes", "dirty_ratio")  # fmt: skip
    of = columns_of(topics, names)
    columns = (
        Column("Topic", Kind.NAME, _named(of["topic"])),
        Column("Policy", Kind.WORD, [policy or "unknown" for policy in of["cleanup_policy"]]),
        Column("Partitions", Kind.NUMBER, of["partitions"], True),
        Column("Segments", Kind.NUMBER, of["segments"], True),
        Column("Size", Kind.BYTES, of["bytes"], True),
        Column("Delete", Kind.BYTES, of["deleted_bytes"], True),
        Column("Compact", Kind.BYTES, of["compacted_bytes"], True),
        Column("Keep", Kind.BYTES, of["kept_bytes"], True),
        Column("Later", Kind.BYTES, of["later_bytes"], True),
        Column("Dirty", Kind.RATIO, of["dirty_ratio"]),
    )
    caption = "What changes first. Sizes are those of .log files; Later is what time lets go within seven days."
    return DataTable("topics", "Topics", caption, columns)


def _limits_table(places: Sequence[Document]) -> DataTable:
    of = columns_of(places, ("limit_ms", "kept_bytes", "freed_bytes"))
    columns = (
        Column("retention.ms", Kind.SPAN, of["limit_ms"]),
        Column("Freed now", Kind.BYTES, of["freed_bytes"]),
        Column("Kept", Kind.BYTES, of["kept_bytes"]),
    )
    caption = (
        "If every topic that deletes had this limit: what a run would delete now, and what would stay. Topics named "
        "__* keep theirs. It goes by the time indexes; --what-if also reads the ends of the logs."
    )
    return DataTable("limits", "What another retention.ms would free", caption, columns)


def _answers(questions: Sequence[Document]) -> Iterator[Document]:
    for question in questions:
        for answer in question["answers"]:
            days = [runway["days"] for runway in answer["runway"] if runway["days"] is not None]
            value = "as now" if answer["value"] is None else str(answer["value"])
            yield {**answer["totals"], "key": question["key"], "value": value, "days": min(days, default=None)}


def _what_if_table(answers: Sequence[Document]) -> DataTable:
    names = ("key", "value", "freed_bytes", "kept_bytes", "freed_disk_bytes", "compacted_from_bytes",
             "long_run_bytes", "days")  # fmt: skip
    of = columns_of(answers, names)
    columns = (
        Column("Key", Kind.WORD, of["key"]),
        Column("Value", Kind.WORD, of["value"]),
        Column("Freed", Kind.BYTES, of["freed_bytes"]),
        Column("Kept", Kind.BYTES, of["kept_bytes"]),
        Column("Freed on disk", Kind.BYTES, of["freed_disk_bytes"]),
        Column("Compacted", Kind.BYTES, of["compacted_from_bytes"]),
        Column("Long run", Kind.BYTES, of["long_run_bytes"]),
        Column("Full in days", Kind.NUMBER, of["days"]),
    )
    return DataTable("what-if", "What if", "The answers to --what-if, for all topics together.", columns)


def _partitions_table(partitions: Sequence[Document], sums: Sequence[Document], *, several: bool) -> DataTable:
    names = ("log_dir", "cleanup_policy", "bytes", "log_start_offset", "log_end_offset", "dirty_ratio", "error")
    of = columns_of(partitions, names)
    summed = columns_of(sums, ("segments", "deleted_bytes", "compacted_bytes", "next_expiry_ms"))
    columns = [
        Column("Partition", Kind.NAME, [printable(f"{p['topic']}-{p['partition']}") for p in partitions]),
        Column("Policy", Kind.WORD, [policy or "unknown" for policy in of["cleanup_policy"]]),
        Column("Segments", Kind.NUMBER, summed["segments"], True),
        Column("Size", Kind.BYTES, of["bytes"], True),
        Column("Delete", Kind.BYTES, summed["deleted_bytes"], True),
        Column("Compact", Kind.BYTES, summed["compacted_bytes"], True),
        Column("Start", Kind.NUMBER, of["log_start_offset"]),
        Column("End", Kind.NUMBER, of["log_end_offset"]),
        Column("Dirty", Kind.RATIO, of["dirty_ratio"]),
        Column("Next expiry", Kind.MOMENT, summed["next_expiry_ms"]),
    ]
    if several:
        columns.insert(1, Column("Log dir", Kind.TEXT, _named(of["log_dir"])))
    if any(of["error"]):
        columns.append(Column("Failure", Kind.TEXT, _named(of["error"])))
    caption = "A row opens the segments of its partition: on a time axis, and with the reason of each."
    return DataTable("partitions", "Partitions", caption, tuple(columns), "segments")


def _reasons_table(reasons: Sequence[Document]) -> DataTable:
    of = columns_of(reasons, ("action", "code", "topics", "segments", "bytes", "text", "key", "value", "origin"))
    columns = (
        Column("Verdict", Kind.ACTION, of["action"]),
        Column("Reason", Kind.CODE, of["code"]),
        Column("Topics", Kind.NUMBER, of["topics"]),
        Column("Segments", Kind.NUMBER, of["segments"]),
        Column("Size", Kind.BYTES, of["bytes"]),
        Column("Limit", Kind.WORD, [f"{k}={v}" if k else "" for k, v in zip(of["key"], of["value"], strict=True)]),
        Column("Origin", Kind.TEXT, _named(of["origin"])),
        Column("For example", Kind.TEXT, _named(of["text"])),
    )
    caption = "Why segments go or stay: a row for each reason and the value that it rests on."
    return DataTable("reasons", "Reasons", caption, columns)
