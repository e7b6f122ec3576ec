"""A run as text: a paragraph for each topic that changes, a line for each of the others, and the totals.

The end tells which space is free now and later, and the next step. If the topics do not fit the available lines, the
paragraphs lose their sentences, and the lists end with "and N more".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from cleaner.engine.outcome import Basis, Outcome
from cleaner.printable import printable
from cleaner.report.page import ATTENTION, NAME_MIN, Page, in_columns, two_sizes
from cleaner.report.rollup.rolled import Concern, Fate, TopicRoll, freed_words, rolled
from cleaner.report.runs import STYLES, policy_of, told, where
from cleaner.report.runways import closing, is_of_store, lines
from cleaner.report.totals import Totals
from policies.findings.only_copies import KeptFile
from policies.guards import may_drop_unkeyed
from policies.plan import Plan
from policies.planning import deletion_steps
from policies.reasons import Action, counted, offsets, size

WORD_WIDTH: Final = len("would compact")

_PAST: Final = {
    "delete": "Deleted",
    "compact": "Compacted",
    "drop": "Dropped",
    "free": "Freed",
    "leave out": "Left out",
    "unlink": "Unlinked",
}

_CONCERN_STYLES: Final = {Concern.CHANGES: "bold", Concern.WAITS_FOR_A_PERSON: "magenta", Concern.UNCHANGED: ""}
_LINES_MIN: Final = 12
"""The least lines of the list, even if the text about the log dirs fills the report."""
_ROWS_KEPT: Final = 6
"""The lines of the list that the topics of each lesser concern get at least."""
_ERRORS_MAX: Final = 3
_NAMED_MAX: Final = 3
"""The most entries that are named of those that a copy leaves out."""
_MORE: Final = {
    Concern.CHANGES: "with changes",
    Concern.WAITS_FOR_A_PERSON: "to look at",
    Concern.UNCHANGED: "unchanged",
}
_ByConcern = dict[Concern, list[TopicRoll]]


def list_topics(page: Page, plan: Plan, outcome: Outcome, lines_max: int) -> None:
    """Add the topics to a page, the topics that change first, the topics without a change last.

    Args:
        page: the page; its view says in which order, and how many.
        plan: the plan.
        outcome: what was done, or would be.
        lines_max: the number of lines, if the view names no number of topics.
    """
    every = _by_concern(rolled(plan, outcome, page.view.sort))
    wanted = _by_concern(page.view.first([roll for rolls in every.values() for roll in rolls]))
    lines_max = max(lines_max, _LINES_MIN)
    draft = page.draft()
    if not _in_full(draft, every, wanted, outcome, lines_max):
        draft = page.draft()
        _in_short(draft, every, wanted, outcome, None if page.view.limit else lines_max - 2)
        draft.line("-v shows every partition and segment, --limit N shows N topics.", "dim")
        draft.line()
    page.text.extend(draft.text)


def list_order(page: Page, plan: Plan, rows_max: int) -> None:
    """Add the deletions of a plan that unlinks at once, in the order in which a run makes them."""
    steps = [step for log_dir in plan.log_dirs for step in deletion_steps(log_dir, at_once=True)]
    if not steps:
        return
    rows: list[tuple[str, ...]] = []
    for step in steps[: page.view.limit or rows_max]:
        assert step.deletion is not None
        first, last = step.deletion.verdicts[0], step.deletion.verdicts[-1]
        many = counted(len(step.deletion.segments), "segment")
        place = f"{first.base_offset} to {last.base_offset}, {many}" if first != last else str(first.base_offset)
        name = str(step.facts.topic_partition)
        rows.append((name, place, size(step.deletion.size_bytes), last.reason.code))
    page.line("Deletions, in this order:", "bold")
    for line in in_columns(rows, page, right=(2,)):
        page.row(f"  {line}")
    if left_out := len(steps) - len(rows):
        page.note(f"and {counted(left_out, 'more deletion')}")
    page.line()


def summarize(page: Page, plan: Plan, outcome: Outcome, *, ended_ms: int | None, is_copy: bool) -> None:
    """Add the totals and the next step to a page.

    Args:
        page: the page.
        plan: the plan.
        outcome: what was done, or would be.
        ended_ms: when the run ended, epoch ms; None if it took its own time from the moment of the plan on.
        is_copy: whether the run wrote a copy, and so freed nothing.
    """
    totals = Totals.of(plan, outcome)
    is_copy = is_copy or is_of_store(plan)  # nothing there is changed
    if ended_ms is None:
        ended_ms = plan.request.now_ms + round(outcome.seconds * 1000)
    for label, words in _figures(totals, outcome):
        _figure(label, words, outcome, page)
    if freed := freed_words(plan, totals, outcome, ended_ms):
        words = f"{size(totals.reclaimed_bytes)} of {size(totals.bytes_before)}"  # of the bytes that a copy would hold
        _figure("leave out" if is_copy else "free", words if is_copy else freed, outcome, page)
    _warnings(totals, outcome, page, is_copy=is_copy)
    lines(outcome.runways, page)
    _next_step(plan, totals, outcome, page, is_copy=is_copy)


def compacted(from_bytes: int, to_bytes: int | None, dirty_bytes: int) -> str:
    """Return the sizes before and after a compaction; if the result is not known, the dirty bytes."""
    if to_bytes is not None:
        return " to ".join(two_sizes(from_bytes, to_bytes))
    share = "all" if dirty_bytes >= from_bytes else size(dirty_bytes)
    return f"{size(from_bytes)}, {share} of it dirty"


def kept_words(file: KeptFile) -> str:
    """Return which file stays, and why."""
    path, copy = f"{file.topic_partition}/{file.name}", file.copy
    if copy is None:
        return f"{path} has no .log: records are missing"
    if file.unknown_because is not None:
        return f"{path}: nobody knows whether the log needs it: {file.unknown_because}"
    return f"{path} may be the only copy of offsets {copy.first_offset} to {copy.last_offset}, which the log lacks"


def _by_concern(rolls: Sequence[TopicRoll]) -> _ByConcern:
    found: _ByConcern = {concern: [] for concern in Concern}
    for roll in rolls:
        found[roll.concern].append(roll)
    return found


def _in_full(page: Page, every: _ByConcern, wanted: _ByConcern, outcome: Outcome, lines_max: int) -> bool:
    """Write paragraphs with every reason, and a row for each unchanged topic. Return False if they do not fit."""
    for concern, rolls in wanted.items():
        is_row = concern is Concern.UNCHANGED
        for roll in rolls if not is_row else ():
            _head(roll, page, with_offsets=True)
            _fates(roll, roll.fates(outcome), page)
            _notes(roll, page, _ERRORS_MAX)
            page.line()
            if page.lines > lines_max:
                return False
        if is_row:
            _rows(page, rolls)
        if _and_more(page, concern, every[concern][len(rolls) :]) or (rolls and is_row):
            page.line()
    return page.lines <= lines_max


def _head(roll: TopicRoll, page: Page, *, with_offsets: bool = False) -> None:
    """Add the line with the topic's name, policy, partitions and bytes; with the offsets if it has one partition."""
    words: list[str] = []
    if roll.plans:
        words.append(policy_of(roll.plans[0]))
    if roll.partitions > 1:
        changing = len(roll.changing)
        of = f"{changing:,} of " if 0 < changing < roll.partitions else ""
        words.append(f"{of}{counted(roll.partitions, 'partition')}")
    words.append(_change(roll.size_bytes, roll.size_bytes - roll.reclaimed_bytes, roll.is_estimate))
    if roll.is_estimate and not (roll.partitions == 1 and with_offsets):
        words.append(f"{size(roll.dirty_bytes)} dirty")
    name = page.name(roll.name, max(page.width - len("  ".join(["", *words])), NAME_MIN))
    if with_offsets and roll.partitions == 1 and roll.plans:
        facts, section = roll.plans[0].facts, roll.plans[0].section
        words.append(offsets(facts.log_start_offset, facts.log_end_offset))
        words += [f"dirty ratio {section.dirty_ratio:.2f}"] if section else []
    page.line("  ".join((name, *words)), "bold", hanging=2)


def _change(before_bytes: int, after_bytes: int, is_estimate: bool) -> str:
    """Return the size before and the size after, or one size if they are equal."""
    if before_bytes == after_bytes:
        return size(before_bytes)
    return f" -> {'at most ' if is_estimate else ''}".join(two_sizes(before_bytes, after_bytes))


def _fates(roll: TopicRoll, fates: Sequence[Fate], page: Page) -> None:
    places = [_place(roll, fate) for fate in fates]
    columns = max(map(len, places), default=0)
    for fate, place in zip(fates, places, strict=True):
        reason = fate.telling.verdict.reason
        figures = f"  {place:{columns}}  {size(fate.size_bytes):>11}  {reason.code}"
        page.fate(f"{fate.telling.word:{WORD_WIDTH}}", figures, STYLES[fate.telling.verdict.action])
        page.line(told(reason, "" if fate.alike else _whose(roll, fate)), indent=4)


def _place(roll: TopicRoll, fate: Fate) -> str:
    if roll.partitions == 1 and fate.segments == fate.telling.segments:
        return where(fate.telling)
    of = f" of {counted(fate.partitions, 'partition')}" if roll.partitions > 1 else ""
    return f"{counted(fate.segments, 'segment')}{of}"


def _whose(roll: TopicRoll, fate: Fate) -> str:
    base_offset = str(fate.telling.verdict.base_offset)
    return base_offset if roll.partitions == 1 else f"{fate.owner.facts.topic_partition} {base_offset}"


def _notes(roll: TopicRoll, page: Page, errors_max: int, *, with_results: bool = True) -> None:
    """Add what a run did or met beside the fates: checkpoints, results of compactions, failures."""
    wrong = [p for p in roll.plans if p.checkpoint_offset is not None]
    if wrong:
        first, rest = wrong[0], len(wrong) - 1
        others = f"; the same holds for {counted(rest, 'more partition')}" if rest else ""
        words = f"cleaner-offset-checkpoint lies outside the log: first dirty offset {first.facts.cleaner_checkpoint}"
        page.note(f"{words} becomes {first.checkpoint_offset}{others}")
    if with_results:
        _compactions(roll, page)
    for error in roll.errors[:errors_max]:
        page.note(f"FAILED: {error}", "bold red")
    if (more := len(roll.errors) - errors_max) > 0:
        page.note(f"FAILED: {counted(more, 'more partition')}; stderr has a line for each", "bold red")


def _compactions(roll: TopicRoll, page: Page) -> None:
    results = [result for _, result in roll.results if result.compacted_from_bytes]
    if not results:
        return
    is_estimate = any(result.basis is Basis.ESTIMATE for result in results)
    to_bytes = None if is_estimate else sum(result.compacted_to_bytes for result in results)
    words = f": {compacted(sum(r.compacted_from_bytes for r in results), to_bytes, roll.dirty_bytes)}"
    if read := sum(result.records_read for result in results):
        words += f", {sum(result.records_kept for result in results):,} of {read:,} records stay"
    if unkeyed := sum(result.records_unkeyed for result in results):
        words += f", {unkeyed:,} without a key go"
    page.fate("compaction", words, STYLES[Action.COMPACT])


def _rows(page: Page, rolls: Sequence[TopicRoll]) -> None:
    """Add one line for each topic, and another for its first failure."""
    for line, roll in zip(in_columns([_cells(roll) for roll in rolls], page, (2, 3)), rolls, strict=True):
        page.row(line, _CONCERN_STYLES[roll.concern])
        _notes(roll, page, 1, with_results=False)


def _cells(roll: TopicRoll) -> tuple[str, ...]:
    policy = policy_of(roll.plans[0]) if roll.plans else "-"
    code = roll.commonest() or ("FAILED" if roll.errors else "-")
    return roll.topic, policy, counted(roll.partitions, "partition"), size(roll.size_bytes), code


def _and_more(page: Page, concern: Concern, left_out: Sequence[TopicRoll]) -> bool:
    """Add a line for the topics of a concern that are not shown. Return whether there are any."""
    if left_out:
        before_bytes = sum(roll.size_bytes for roll in left_out)
        after_bytes = before_bytes - sum(roll.reclaimed_bytes for roll in left_out)
        is_estimate = any(roll.is_estimate for roll in left_out)
        sizes = _change(before_bytes, after_bytes if concern is Concern.CHANGES else before_bytes, is_estimate)
        page.line(f"and {counted(len(left_out), 'more topic')} {_MORE[concern]}: {sizes}", hanging=2)
    return bool(left_out)


def _in_short(page: Page, every: _ByConcern, wanted: _ByConcern, outcome: Outcome, lines_max: int | None) -> None:
    """Write two or three lines for each topic that changes, and a row for each topic that does not."""
    for concern, rolls in wanted.items():
        lesser = (len(wanted[one]) for one in Concern if one > concern)
        kept = sum(min(number, _ROWS_KEPT) + 2 for number in lesser if number)
        room = None if lines_max is None else max(lines_max - page.lines - kept - 2, 1)
        pieces = list(_fitting((_piece(roll, page, outcome) for roll in rolls), room))
        if concern is Concern.CHANGES:
            for piece in pieces:
                page.text.extend(piece.text)
        else:
            _rows(page, rolls[: len(pieces)])
        if _and_more(page, concern, every[concern][len(pieces) :]) or pieces:
            page.line()


def _fitting(pieces: Iterable[Page], room: int | None) -> Iterator[Page]:
    """Yield the first pieces that the room suffices for."""
    lines = 0
    for piece in pieces:
        lines += piece.lines
        if room is not None and lines > room:
            return
        yield piece


def _piece(roll: TopicRoll, page: Page, outcome: Outcome) -> Page:
    """Return the lines of a topic in a short list; a topic that does not change gets as many lines."""
    piece = page.draft()
    _head(roll, piece)
    for fate in roll.fates(outcome) if roll.changing else ():
        if fate.telling.verdict.action is not Action.KEEP:
            _short_fate(roll, fate, piece)
    _notes(roll, piece, 1, with_results=False)
    return piece


def _short_fate(roll: TopicRoll, fate: Fate, page: Page) -> None:
    reason = fate.telling.verdict.reason
    of = "" if fate.partitions == len(roll.changing) else f" of {counted(fate.partitions, 'partition')}"
    place = f"{counted(fate.segments, 'segment')}{of}"
    limit = f"  {reason.limit.key}={reason.limit.stated.shown}" if reason.limit else ""
    figures = f"  {place}, {size(fate.size_bytes)}  {reason.code}{limit}"
    page.fate(f"{fate.telling.word:{WORD_WIDTH}}", figures, STYLES[fate.telling.verdict.action])


def _figures(totals: Totals, outcome: Outcome) -> list[tuple[str, str]]:
    figures: list[tuple[str, str]] = []
    if totals.deleted_segments:
        segments = counted(totals.deleted_segments, "segment")
        partitions = counted(totals.deleting_partitions, "partition")
        figures.append(("delete", f"{segments} of {partitions}, {size(totals.deleted_bytes)}"))
    if totals.compacted_partitions:
        from_bytes, to_bytes = totals.compacted_from_bytes, totals.compacted_to_bytes
        sizes = compacted(from_bytes, None if totals.is_estimate else to_bytes, totals.dirty_bytes)
        figures.append(("compact", f"{counted(totals.compacted_partitions, 'partition')}, {sizes}"))
    if totals.records_unkeyed:
        records = counted(totals.records_unkeyed, "record")
        figures.append(("drop", f"{records} without a key: a compacted topic cannot keep them"))
    if outcome.swept_bytes:
        lost = "after that, restore cannot" if outcome.dry_run else "restore can no longer"
        figures.append(
            (
                "unlink",
                f"{size(outcome.swept_bytes)} in .deleted files of earlier runs: {lost} take these deletions back",
            )
        )
    return figures


def _warnings(totals: Totals, outcome: Outcome, page: Page, *, is_copy: bool) -> None:
    if totals.unknown:
        words = f"{counted(totals.unknown, 'partition')} with unknown configuration (CONFIG_UNKNOWN)"
        page.line(f"{'Not touched':{WORD_WIDTH}}  {words}", ATTENTION)
    if totals.guarded:
        words = f"{counted(totals.guarded, 'partition')} by a guard rail; --yes releases it"
        page.line(f"{'Held back':{WORD_WIDTH}}  {words}", ATTENTION)
    if totals.failed:
        others = "; the others were processed" if totals.partitions > totals.failed else ""
        page.line(f"{'Failed':{WORD_WIDTH}}  {counted(totals.failed, 'partition')}{others}", "bold red")
    for file in outcome.kept:
        page.line(
            f"{'Left out' if is_copy else 'Kept':{WORD_WIDTH}}  {kept_words(file)}", ATTENTION, hanging=WORD_WIDTH + 2
        )
    if outcome.kept:
        words = "The copy lacks these records: keep the original. " if is_copy else ""
        words += "A broker that starts removes these files: do not start it; logcleaner doctor says what to do."
        page.line(f"{'':{WORD_WIDTH}}  {words}", ATTENTION, hanging=WORD_WIDTH + 2)
    if outcome.left_out:
        named = ", ".join(map(printable, outcome.left_out[:_NAMED_MAX]))
        more = f" and {len(outcome.left_out) - _NAMED_MAX:,} more" if len(outcome.left_out) > _NAMED_MAX else ""
        words = f"{counted(len(outcome.left_out), 'entry', 'entries')} of the log dir: {named}{more}"
        page.line(f"{'Not copied':{WORD_WIDTH}}  {words}", ATTENTION, hanging=WORD_WIDTH + 2)
    for error in outcome.errors:
        page.line(f"FAILED: {error}", "bold red", hanging=2)


def _next_step(plan: Plan, totals: Totals, outcome: Outcome, page: Page, *, is_copy: bool) -> None:
    has_work = plan.has_work or outcome.swept_bytes > 0
    if outcome.interrupted and is_copy:
        page.line("Interrupted: what was written is no copy. Remove it, and run again.", ATTENTION)
    elif outcome.interrupted:
        is_quiet = page.view.summary_only  # then no segment is shown, so none can be marked
        left = "not everything was finished" if is_quiet else "what is marked 'not' was not finished"
        words = (
            f"Interrupted: {left}, a compaction may be done in part, and every file is whole. Run again for the rest."
        )
        page.line(words, ATTENTION)
    elif not (has_work or totals.unknown or totals.guarded or _has_failed(plan, totals, outcome)):
        page.line(f"Nothing to do in {counted(totals.partitions, 'partition')}.", "bold")
    if outcome.dry_run and totals.is_estimate:
        page.line("The compacted size is not known without reading the data; --exact reads it.")
        _uncounted(plan, outcome, page)
    if outcome.dry_run and has_work:
        page.line(closing(plan, outcome), ATTENTION)


def _uncounted(plan: Plan, outcome: Outcome, page: Page) -> None:
    """Add a line if the records that a compacted topic cannot keep were not counted."""
    estimated = {key for key, result in outcome.results.items() if result.basis is Basis.ESTIMATE}
    if partitions := sum(p.key in estimated and may_drop_unkeyed(p) for p in plan.partitions):
        would = f"{counted(partitions, 'partition')} may lose records without a key"
        page.line(f"{would}: --exact counts them.")
        page.line("A run leaves partitions alone that would lose more than max.unkeyed.ratio.")


def _has_failed(plan: Plan, totals: Totals, outcome: Outcome) -> bool:
    return bool(totals.failed or outcome.errors or any(log_dir.facts.errors for log_dir in plan.log_dirs))


def _figure(label: str, words: str, outcome: Outcome, page: Page) -> None:
    verb = f"Would {label}" if outcome.dry_run else _PAST[label]
    page.line(f"{verb:{WORD_WIDTH}}  {words}", "bold", hanging=WORD_WIDTH + 2)
