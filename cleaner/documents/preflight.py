"""``logcleaner.preflight/1``."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from cleaner.documents.parts import Count, Measure
from policies.preflight.start import Dirs, PartitionFate, StartStepKind


class PreflightRefusal(TypedDict):
    """A place, and why the start fails there or may fail."""

    path: str
    """The file or directory."""
    exception: str
    """The class of Kafka's exception, without its package."""
    cause: str
    """The cause, in words."""


class PreflightUnplaced(TypedDict):
    """A partition that lies in no log dir."""

    topic: str
    """The topic."""
    partition: int
    """The partition."""


class PreflightFailure(TypedDict):
    """A failure."""

    file: str
    """The file, seen from the log dir."""
    exception: str
    """The class of Kafka's exception, without its package."""
    cause: str
    """The cause, in words."""


class PreflightStep(TypedDict):
    """One thing that the start does."""

    kind: StartStepKind
    """`recover`: a segment is read whole and indexed again; `rebuild`: an index is made anew; `truncate`: records
    are lost; `split`; `rename`: `.swap` or `-future` is taken off; `create`: made empty; `delete`: at once;
    `delete-later`: after the delay; `set-aside`: as `-stray`; `write`: a producer snapshot; `append-behind`:
    bytes that are no batch stay at the end of the log, and records that are appended behind them can never be
    read; `take-damaged`: a damaged or empty `.swap` file gets the place of a segment, and what it replaces is
    deleted; `cover`: an empty segment is made at the offset that a `.log` of an odd name states, and nobody reads
    that file, nor records of the offsets behind.
    """
    file: str
    """The file, seen from the partition directory; empty for the directory itself."""
    why: str
    """The reason, in words."""
    position: int | None
    """Of `truncate`: the byte from which on the file is cut; of `append-behind` and `take-damaged`: where the
    last sound batch ends; else null.
    """
    offset: int | None
    """Of `truncate`: the end of the log, or of the segment, behind it; of `append-behind`: the offset that the
    next record gets; of `take-damaged`: that behind the last sound batch; of `cover`: that of the empty segment;
    else null.
    """
    bytes: Count
    """The bytes that are read, cut, deleted or in the way."""
    zero_bytes: NotRequired[Count]
    """Of `truncate`: so many of these bytes are zeros at the end of the file, which are no records; else 0."""


class PreflightLost(TypedDict):
    """Records that are lost."""

    topic: str
    """Its topic."""
    partition: Count
    """Its number."""
    log_start_offset: Count
    """The first offset that it had."""
    end_offset: Count
    """The offset behind its last record."""
    set_aside: str | None
    """The `-stray` or `-delete` directory that holds the only copy; null without one."""


class PreflightMissing(TypedDict):
    """Records that are missing."""

    code: str
    """The code of the finding, as `doctor` has it."""
    path: str
    """The file or directory."""
    offset: int | None
    """Where the gap begins, or the log ends; null if not known."""
    text: str
    """What is missing, in words."""
    remedy: str
    """What to do."""


class PreflightPartition(TypedDict):
    """A partition."""

    directory: str
    """The name of the directory before the start."""
    topic: str
    """The topic's name."""
    partition: int
    """The number of the partition."""
    fate: PartitionFate
    """`served`; `stray`: kept and not served; `deleted` after the delay; `future`: of a move between log dirs;
    `refuses`: stops the broker; `takes-offline`: its log dir goes offline.
    """
    log_start_offset: NotRequired[int | None]
    """The first offset behind the start; null if not known."""
    log_end_offset: NotRequired[int | None]
    """The end of the log behind the start; null if not known."""
    failed_file: NotRequired[str | None]
    """The file at which loading ends; null if it does not fail."""
    exception: NotRequired[str | None]
    """The class of Kafka's exception, without its package; null if nothing fails."""
    cause: NotRequired[str | None]
    """The cause, in words; null if nothing fails."""
    remedy: NotRequired[str | None]
    """What to do before the start, if it sets the directory aside as `-stray` with records that no other broker
    has; else null.
    """
    steps: list[PreflightStep]
    """What happens to its files, in order."""


class PreflightLogDir(TypedDict):
    """A log dir."""

    path: str
    """The path of the log dir."""
    state: Dirs
    """Whether the broker serves it."""
    clean_shutdown: bool
    """Whether the marker of a clean shutdown is there."""
    failures: list[PreflightFailure]
    """Each cause for which the log dir goes offline."""
    recovered_bytes: NotRequired[Count]
    """The bytes of the segments that are read batch by batch."""
    seconds: NotRequired[Measure]
    """The time that reading them takes at the speed measured on this disk."""
    needed_bytes: NotRequired[Count]
    """The free space that the start needs, an estimate."""
    free_bytes: NotRequired[Count]
    """The free space of the file system."""
    steps: list[PreflightStep]
    """What happens to the log dir besides its partitions: new partition directories."""
    lost: NotRequired[list[PreflightLost]]
    """The partitions that had records by the checkpoints of this log dir, and have no directory; and those whose
    only directory was set aside.
    """
    missing: NotRequired[list[PreflightMissing]]
    """What says that records of a partition are gone already, before the start: findings of `doctor`."""
    partitions: list[PreflightPartition]
    """The partition directories, the metadata log first."""


class PreflightDocument(TypedDict):
    """The document that `preflight --json` prints: what the next start of Kafka will do to the log dirs."""

    schema: Literal["logcleaner.preflight/1"]
    """The name of this schema."""
    kafka: str
    """The version that is to start, such as `4.3`."""
    starts: bool
    """Whether the broker starts."""
    uid: NotRequired[int | None]
    """The id of the user that the broker is taken to run as: the first owner of a log dir who is not root, else
    root.
    """
    refusals: list[PreflightRefusal]
    """Each cause for which the broker does not start."""
    uncertain: list[PreflightRefusal]
    """Each cause for which the broker may not start, by the order in which it loads the partitions."""
    unplaced: list[PreflightUnplaced]
    """Partitions that begin empty, because they have no directory, in a log dir that Kafka chooses."""
    log_dirs: list[PreflightLogDir]
    """The log dirs, in the order in which they were named."""
