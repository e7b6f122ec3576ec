"""Tell which files have left the log, and still take space."""

from __future__ import annotations

from collections.abc import Iterator

from policies.explain.blockers import Blocker, BlockerCode
from policies.explain.fates import Case
from policies.explain.words import counted, size
from policies.reasons import moment


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
