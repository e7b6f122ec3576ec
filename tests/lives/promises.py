"""What a command says that it does or did, against what is there: its dry run, its document, a second run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.lives.running import Told
from tests.lives.seen import Look

_SHOWN: Final = 5
_OF_THE_RUN: Final = frozenset(
    {
        "dry_run",
        "now",
        "time_ms",
        "seconds",
        "done",
        "restored",
        "repaired",
        "code",
        "text",
        "until_ms",
        "restorable_until_ms",
    }
    | {"held_since_ms", "remaining", "totals", "findings", "problems", "damaged", "free_bytes", "log_dirs", "set_aside"}
)
"""What the documents of a run and of its dry run need not have in common: times, and what came of it."""


def tree(directory: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory, but the lock that whoever comes first makes."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def untrue_of_source(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """Yield that a command changed what it only reads."""
    if changed := {path for path, _ in before.items() ^ after.items()}:
        yield f"a source stays as it is: {sorted(changed)[:_SHOWN]}"


def untrue_of_dry_run(said: Told, did: Told) -> Iterator[str]:
    """Yield what a run did otherwise than its dry run said."""
    if did.status == 0 and said.document and did.document:
        for place, one, other in _differing(said.document, did.document, ""):
            yield f"{' '.join(did.words[:4])} does what its dry run said: {place} {one}, and did {other}"


def _differing(said: Any, did: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs; a dry run does not know what it says nothing of."""
    if isinstance(said, dict) and isinstance(did, dict):
        for name in said.keys() - _OF_THE_RUN:
            yield from _differing(said[name], did.get(name), f"{place}.{name}")
    elif isinstance(said, list) and isinstance(did, list) and len(said) == len(did):
        for number, (one, other) in enumerate(zip(said, did, strict=True)):
            yield from _differing(one, other, f"{place}[{number}]")
    elif said is not None and said != did:
        yield place, said, did


def untrue_of_second_run(again: Told) -> Iterator[str]:
    """Yield what the dry run behind a run still finds to do."""
    told = again.document or {}
    segments = [one for part in told.get("partitions", ()) for one in part.get("segments", ())]
    match again.words[0]:
        case "erase" | "delete-records":
            left = told.get("records")
        case "verify":
            left = told.get("repairs")
        case "restore":
            left = [one for one in segments if one["code"] == "RESTORABLE"]
        case "free":
            left = [one for one in segments if one["action"] == "delete"]
        case _:
            left = None
    if left:
        yield f"a second {again.words[0]} has nothing to do: {left}"


def of_promises(told: Told, before: Look, after: Look) -> Iterator[str]:
    """Yield what a command said at exit 0, and is not so."""
    if told.status:
        return
    if told.words[0] == "restore" and told.document:
        for partition in told.document["partitions"]:
            name = f"{partition['topic']}-{partition['partition']}"
            back = {one["base_offset"] for one in partition["segments"] if one["restored"]}
            there = {one.base_offset for one in after.logs[name].pieces} if name in after.logs else set()
            if missing := back - there:
                yield f"{name} has {sorted(missing)} again"
    if "--sweep" in told.words:
        named = {*told.words[told.words.index("--sweep") + 1 : told.words.index("--log-dir")]}
        if stays := named & after.files.keys():
            yield f"{sorted(stays)[:_SHOWN]} are swept"
        if others := before.files.keys() - after.files.keys() - named:
            yield f"only what was named is swept: {sorted(others)[:_SHOWN]}"
