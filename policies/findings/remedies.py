"""Sentences that several rules say: what a shape does, and what to do. Each shape has one of each, in every command."""

from __future__ import annotations

from typing import Final

FETCH_AGAIN: Final = (
    "Copy the directory to a safe place; then let the broker fetch the partition from another replica, or restore it"
    " from a backup."
)
REBUILD: Final = "Stop the broker, and run logcleaner verify --repair: it builds the file anew from the log."
BY_ITSELF: Final = "Nothing: the next start of the broker recovers the log, and builds the file anew."
TIME_INDEX_PADDED: Final = (
    "a broker takes 1970 for the segment's newest record, and retention by time deletes the segment at its next check"
)
END_LOST: Final = (
    "Mend nothing by hand. Let a replica that has the end lead before clients write; without one, a backup is all there"
    " is."
)
START_LOST: Final = "Keep the broker stopped, copy the directory, and bring the missing segments back from a replica."
CLEANED_ANEW: Final = "Nothing: the next round of the broker, or of clean, writes the checkpoint anew."
WRITE_TOPIC_ID: Final = (
    "Before the broker starts, run logcleaner verify --repair=topic-id: it writes the id if nothing speaks against it."
)
SPLIT_BY_ITSELF: Final = "Start the broker once: it splits the segment while it loads the log."
OTHER_TOPIC: Final = (
    "Nothing, if the records are those of a topic that was deleted and made again; copy the directory if somebody wants"
    " them."
)
UNOWNED: Final = "If nobody misses its records, leave it to the broker; else copy the directory before the next start."
STRANGE_DIRECTORY: Final = (
    "Move it out of the log dir; beside lost+found, use a directory below the mount point as log dir."
)
BRING_BACK: Final = (
    "Keep the broker stopped, and bring the directory back from a backup; or let a replica that has the records lead"
    " before this broker starts."
)
