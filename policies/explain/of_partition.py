"""Tell what blocks a whole partition: a hold, its configuration, a guard rail, a failure, a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from policies.explain.blockers import Blocker, BlockerCode
from policies.explain.fates import EXEMPT, Case
from policies.explain.words import counted, size
from policies.guards import may_be_an_old_copy
from policies.reasons import Reason, ReasonCode, moment

_CONFIRM = "clean --yes goes on all the same"


def partition_blockers(case: Case) -> Iterator[Blocker]:
    """Yield what keeps all of the partition."""
    reason = case.intended.verdicts[0].reason if case.intended.verdicts else None
    if reason is not None and reason.code in EXEMPT:
        yield _exempt(case, reason)
    if (guard := case.planned.guard) is not None:
        yield _guard(case, guard)
    yield from _failed(case)
    yield from _checkpoints(case)


def _exempt(case: Case, reason: Reason) -> Blocker:
    facts, policy = case.facts, case.planned.policy
    kept = {"size_bytes": facts.size_bytes}
    match reason.code:
        case ReasonCode.HELD:
            since_ms = facts.held_since_ms
            text = f"It is on hold since its restore at {moment(since_ms or 0)}: no retention, no compaction."
            remedy = f"logcleaner restore --release {facts.topic_partition} ends the hold."
            return Blocker(BlockerCode.HELD, "logcleaner restore", text, remedy, since_ms, **kept)
        case ReasonCode.CONFIG_UNKNOWN:
            why, _, remedy = (policy.unknown_because or reason.text).partition("; ")
            return Blocker(BlockerCode.CONFIG_UNKNOWN, "the configuration", _sentence(why), _sentence(remedy), **kept)
        case ReasonCode.REMOTE_STORAGE:
            owner = policy.value_of("remote.storage.enable").sentence
            text = "Only the broker knows which segments it has uploaded, so logcleaner touches none."
            remedy = "Let the broker run: it alone deletes here, by local.retention.ms and local.retention.bytes."
            return Blocker(BlockerCode.REMOTE_STORAGE, owner, text, remedy, **kept)
        case _:
            text = (
                "With log.cleaner.enable=false a compacted topic is neither compacted nor, as in Kafka, deleted from."
            )
            remedy = "Set log.cleaner.enable=true; --set log.cleaner.enable=true does it for one run of clean."
            owner = case.broker.value_of("log.cleaner.enable").sentence
            return Blocker(BlockerCode.CLEANER_DISABLED, owner, text, remedy, **kept)


def _guard(case: Case, guard: Reason) -> Blocker:
    kept = {"size_bytes": case.facts.size_bytes}
    text = _sentence(guard.text)
    match guard.code:
        case ReasonCode.CLOCK_JUMPED:
            owner = "the clock of this machine"
            goes_on = "clean --yes goes on and notes that"
            remedy = f"Set the clock (timedatectl, chronyc tracking); if it is right, {goes_on}."
            if may_be_an_old_copy(guard.text):
                normal = "An old copy, or a broker that was stopped for long, looks like this"
                remedy = f"{normal}: {goes_on}. Of a log dir in use, set the clock (timedatectl, chronyc tracking)."
            return Blocker(BlockerCode.CLOCK_JUMPED, owner, text, remedy, **kept)
        case ReasonCode.FOREIGN_CONFIG:
            remedy = f"Name the configuration of the broker that wrote this log dir; {_CONFIRM}."
            return Blocker(BlockerCode.FOREIGN_CONFIG, "the configuration", text, remedy, **kept)
        case ReasonCode.MAX_UNKEYED_RATIO:
            owner = "the producer that sends no keys"
            size_bytes = sum(v.size_bytes for v in case.planned.verdicts if v.reason.code is guard.code)
            remedy = f"With cleanup.policy=delete the topic keeps these records; if they may go, {_CONFIRM}."
            return Blocker(BlockerCode.MAX_UNKEYED_RATIO, owner, text, remedy, size_bytes=size_bytes)
        case ReasonCode.RELOAD_GUARD:
            owner = guard.limit.stated.origin if guard.limit else "the configuration"
            remedy = "If it is meant, logcleaner config apply confirms it; else mend the file."
            return Blocker(BlockerCode.RELOAD_GUARD, owner, text, remedy, **kept)
        case _:
            owner = case.planned.policy.value_of("max.delete.ratio").sentence
            remedy = f"Make sure that the limits are meant; then {_CONFIRM}."
            return Blocker(BlockerCode.MAX_DELETE_RATIO, owner, text, remedy, **kept)


def _failed(case: Case) -> Iterator[Blocker]:
    failed = case.seen.failed
    if failed is None:
        return
    again = f", the last time at {moment(failed.last_ms)}" if failed.last_ms > failed.since_ms else ""
    text = f"Compaction fails since {moment(failed.since_ms)}{again}: {failed.cause}"
    if failed.files_changed:
        remedy = "Its files are others since then: the next clean, or the daemon, tries again."
    else:
        remedy = "Replace what is damaged by a replica or a backup; the daemon tries again once a file changes."
    yield Blocker(BlockerCode.FAILED_ATTEMPT, "the file that the message names", text, remedy, failed.since_ms)


def _checkpoints(case: Case) -> Iterator[Blocker]:
    """Yield the checkpoints that lie outside the log."""
    facts, section = case.facts, case.intended.section
    noted = case.seen.checkpointed_high_watermark
    if noted is not None and noted > facts.log_end_offset:
        lost = counted(noted - facts.log_end_offset, "committed offset")
        text = (
            f"replication-offset-checkpoint says {noted}, but the log ends at {facts.log_end_offset}: {lost} are gone."
        )
        remedy = "Let a replica with the end of the log lead, or restore the newest segments, before clients write."
        yield Blocker(BlockerCode.CHECKPOINT_OUTSIDE_LOG, "whoever cut the log off", text, remedy)
    if section is None or not section.checkpoint_is_invalid:
        return
    if case.planned.policy.cleanup_delete and (facts.cleaner_checkpoint or 0) < facts.log_start_offset:
        return  # retention has passed it by: nothing is wrong
    ends = f"the log starts at {facts.log_start_offset} and ends at {facts.log_end_offset}"
    text = f"cleaner-offset-checkpoint says {facts.cleaner_checkpoint}, but {ends}: it counts as never compacted."
    remedy = "Nothing: the next clean, or a broker, writes it anew. If the log lost its end, restore that first."
    yield Blocker(BlockerCode.CHECKPOINT_OUTSIDE_LOG, "cleaner-offset-checkpoint", text, remedy)


def _sentence(text: str) -> str:
    """Return a text as a sentence: with a capital at its beginning and a period at its end."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}" if text else text


def high_watermark_blockers(case: Case) -> Iterator[Blocker]:
    """Yield what the high watermark and a torn tail keep."""
    facts = case.facts
    reasons = [fate.retention or fate.verdict.reason for fate in case.fates]
    codes = {reason.code for reason in reasons} | {reason.code for reason in _compaction_reasons(case)}
    if facts.high_watermark is None and ReasonCode.NO_HIGH_WATERMARK in codes:
        text = "No high watermark is checkpointed, so nothing is known to be committed."
        remedy = "Start the broker once, and stop it; for a copy or a backup, add --assume-committed."
        kept = facts.size_bytes
        yield Blocker(BlockerCode.NO_HIGH_WATERMARK, "replication-offset-checkpoint", text, remedy, size_bytes=kept)
    above = [f for f in case.fates if facts.high_watermark is not None and f.upper_offset > facts.high_watermark]
    # a transaction whose marker lies above the high watermark is over, but not yet for compaction
    is_over = ReasonCode.OPEN_TRANSACTION in codes and not case.seen.transactions
    if above and (ReasonCode.ABOVE_HIGH_WATERMARK in codes or is_over):
        held = sum(fate.facts.size_bytes for fate in above)
        offsets = counted(facts.log_end_offset - (facts.high_watermark or 0), "offset")
        text = (
            f"The high watermark is {facts.high_watermark}, the log ends at {facts.log_end_offset}: the last {offsets} "
            f"may not be on every in-sync replica. {_segments(len(above), held)}."
        )
        remedy = "Bring the followers back in sync (kafka-topics.sh --describe --under-replicated-partitions)."
        bases = above[0].facts.base_offset, above[-1].facts.base_offset
        owner = "replication"
        yield Blocker(BlockerCode.ABOVE_HIGH_WATERMARK, owner, text, remedy, None, None, *bases, held)
    if facts.torn_tail_bytes:
        bytes_ = counted(facts.torn_tail_bytes, "byte")
        text = f"The last {bytes_} of the active segment are no record batch: a write was cut short."
        remedy = "Run logcleaner doctor: it says what the next start does with them. Nothing is rolled behind them."
        base = facts.active.base_offset
        yield Blocker(BlockerCode.TORN_TAIL, "a crash", text, remedy, None, None, base, base, facts.active.size_bytes)


def _compaction_reasons(case: Case) -> Iterator[Reason]:
    return (fate.compaction for fate in case.fates if fate.compaction is not None)


def _segments(count: int, size_bytes: int) -> str:
    reach = "reaches" if count == 1 else "reach"
    return f"{counted(count, 'segment')} ({size(size_bytes)}) {reach} above it"


def file_blockers(case: Case) -> Iterator[Blocker]:
    """Yield the ``.deleted`` files that still take space."""
    waiting, now_ms = case.seen.waiting, case.request.now_ms
    if waiting is None:
        return
    text = f"{counted(waiting.files, '.deleted file')} ({size(waiting.size_bytes)}) still lie here. "
    delay = case.planned.policy.value_of("file.delete.delay.ms").sentence
    is_over = waiting.last_due_ms <= now_ms
    text += (
        f"Their delay is over since {moment(waiting.last_due_ms)}"
        if is_over
        else (f"Their delay ends at {moment(waiting.last_due_ms)}")
    )
    unknown = waiting.unknown_files
    if unknown:
        whose = "None of them is" if unknown == waiting.files else f"{unknown} of them are not"
        ended = "" if case.seen.locked_by else ", and ended before it could remove them"
        text += f". {whose} in logcleaner's journal: a broker renamed them{ended}."
    else:
        text += "; logcleaner renamed them."
    if case.is_exempt or case.planned.guard is not None:
        remedy = "They stay as long as the partition is not touched; a broker that starts removes them."
    elif is_over:
        remedy = "clean, or the next start of a broker, removes them."
    elif unknown:
        remedy = "clean --delete-delay 0 removes them now; so does the next start of a broker."
    else:
        remedy = "clean --delete-delay 0 removes them now; until then restore can take a deletion back."
    owner = "a crash of the broker" if unknown and is_over and not case.seen.locked_by else delay
    until_ms = None if is_over else waiting.last_due_ms
    yield Blocker(BlockerCode.DELETED_FILES, owner, text, remedy, until_ms=until_ms, size_bytes=waiting.size_bytes)
