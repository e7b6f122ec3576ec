"""The seam does on every disk what it says, in any order of its operations: the forgetting one, ext4, xfs, tmpfs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from storage.filesystem import FileSystem, Purpose
from tests.disk.__main__ import in_memory
from tests.disk.cuts import KINDS, ORDERED, XFS, Cut, Disk
from tests.disk.mount import mounted
from tests.disk.real import looped, made
from tests.disk.recording import Recording

FS: Final = FileSystem()
CUTS: Final = 300
"""Of all that was done to the forgetting disk."""
NAMES: Final = st.sampled_from(("a", "b", "c", "d/a", "d/b"))
DIRECTORIES: Final = st.sampled_from(("", "d"))
MTIME_NS: Final = 1_700_000_000_000_000_000


@dataclass
class Disks:
    """Where the same is done."""

    roots: list[Path] = field(default_factory=list)
    lasting: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Of the forgetting one: behind so many recorded operations this path has these bytes, whatever a cut takes."""
    recording: Path = Path()
    numbers: Iterator[int] = field(default_factory=itertools.count)


class Seam(RuleBasedStateMachine):
    """Do the same everywhere, and compare."""

    disks: ClassVar[Disks]

    def __init__(self) -> None:
        super().__init__()
        self.name = f"example-{next(self.disks.numbers)}"
        self.places = [root / self.name for root in self.disks.roots]
        self.files: dict[str, bytes] = {}
        self.synced: dict[str, bytes] = {}
        """Content as of the last fsync of what has a name that lasts."""
        self.directories = {""}
        for place in self.places:
            FS.make_dir(place, place.parent, Purpose.COPY)
            FS.fsync_dir(place.parent, Purpose.COPY)

    def everywhere(self, do: Callable[[Path], None]) -> bool:
        """Return whether it worked; it works everywhere or nowhere, and fails for one reason."""
        told = set()
        for place in self.places:
            try:
                do(place)
                told.add("")
            except OSError as error:
                told.add(type(error).__name__)
        assert len(told) == 1, told
        return told == {""}

    @rule(path=NAMES, content=st.binary(max_size=1500))
    def create(self, path: str, content: bytes) -> None:
        def do(place: Path) -> None:
            with FS.create(place / path, place, Purpose.CLEAN) as file:
                file.write(content)

        if self.everywhere(do):
            assert path not in self.files
            self.files[path] = content

    @rule(path=NAMES, size=st.integers(0, 2000))
    def create_with_a_hole(self, path: str, size: int) -> None:
        def do(place: Path) -> None:
            with FS.create(place / path, place, Purpose.CLEAN) as file:
                file.extend_to(size)
                file.set_mtime(MTIME_NS)

        if self.everywhere(do):
            self.files[path] = bytes(size)

    @rule(path=NAMES, content=st.binary(min_size=1, max_size=1500))
    def append(self, path: str, content: bytes) -> None:
        def do(place: Path) -> None:
            with FS.open_to_append(place / path, Purpose.JOURNAL) as file:
                file.write(content)

        if self.everywhere(do):
            self.files[path] += content

    @rule(path=NAMES, content=st.binary(min_size=1, max_size=600), share=st.floats(0, 1))
    def write_at(self, path: str, content: bytes, share: float) -> None:
        at = int(len(self.files.get(path, b"")) * share)

        def do(place: Path) -> None:
            with FS.open_to_write(place / path, Purpose.REPAIR) as file:
                file.write_at(at, content)

        if self.everywhere(do):
            before = self.files[path]
            self.files[path] = before[:at] + content + before[at + len(content) :]

    @rule(path=NAMES, size=st.integers(0, 3000))
    def truncate(self, path: str, size: int) -> None:
        if self.everywhere(lambda place: FS.truncate(place / path, size, Purpose.REPAIR)):
            self.files[path] = self.files[path][:size].ljust(size, b"\0")

    @rule(source=NAMES, name=st.sampled_from("abc"))
    def rename(self, source: str, name: str) -> None:
        target = f"{source[:-1]}{name}"
        if self.everywhere(lambda place: FS.rename(place / source, place / target, Purpose.RETIRE)):
            self.files[target] = self.files.pop(source)
            self._forget(source, target)

    @rule(path=NAMES)
    def unlink(self, path: str) -> None:
        if self.everywhere(lambda place: FS.unlink(place / path, Purpose.REMOVE)):
            self.files.pop(path, None)
            self._forget(path)

    @rule()
    def make_dir(self) -> None:
        if self.everywhere(lambda place: FS.make_dir(place / "d", place, Purpose.IMPORT)):
            self.directories.add("d")

    @rule()
    def remove_dir(self) -> None:
        if self.everywhere(lambda place: FS.remove_dir(place / "d", Purpose.IMPORT)):
            assert not any(path.startswith("d/") for path in self.files)
            self.directories.discard("d")
            self._forget(*(path for path in self.synced if path.startswith("d/")))

    @rule(path=NAMES)
    def fsync(self, path: str) -> None:
        def do(place: Path) -> None:
            with FS.open_to_append(place / path, Purpose.JOURNAL) as file:
                file.fsync()

        if self.everywhere(do):
            self.synced[path] = self.files[path]

    @rule(directory=DIRECTORIES)
    def fsync_dir(self, directory: str) -> None:
        if self.everywhere(lambda place: FS.fsync_dir(place / directory, Purpose.RETIRE)):
            self._note_what_lasts(directory)

    @rule(path=NAMES, content=st.binary(max_size=1500))
    def replace_file(self, path: str, content: bytes) -> None:
        if self.everywhere(lambda place: FS.replace_file(place / path, content, Purpose.CHECKPOINT)):
            self.files[path] = self.synced[path] = content
            self._note_what_lasts(path.rpartition("/")[0])

    def _forget(self, *paths: str) -> None:
        for path in paths:
            self.synced.pop(path, None)

    def _note_what_lasts(self, directory: str) -> None:
        """A file that was fsynced under this name, in a directory that is fsynced now; not below one that may go."""
        if directory == "":
            done = len(Recording.read(self.disks.recording).operations)
            for path, content in self.synced.items():
                if "/" not in path and self.files[path] == content:
                    self.disks.lasting.append((done, f"{self.name}/{path}", content))

    @invariant()
    def the_same_is_everywhere(self) -> None:
        for place in self.places:
            found = {path.relative_to(place).as_posix(): path for path in place.rglob("*")}
            assert {path for path in found if found[path].is_dir()} == self.directories - {""}, place
            contents = {name: path.read_bytes() for name, path in found.items() if path.is_file()}
            assert contents == self.files, place


@pytest.fixture
def disks() -> Iterator[Disks]:
    with in_memory() as scratch, ExitStack() as stack:
        found = Disks(recording=scratch / "recording")
        (scratch / "backing").mkdir()
        found.roots.append(stack.enter_context(mounted(scratch / "backing", scratch / "forgetting", found.recording)))
        for kind in (ORDERED, XFS):
            found.roots.append(stack.enter_context(looped(kind, made(kind, scratch / kind), scratch / f"{kind}-disk")))
        (scratch / "tmpfs").mkdir()
        found.roots.append(scratch / "tmpfs")
        yield found


def live_once(seam: Seam) -> None:
    """Make files last: what Hypothesis draws depends on the modules that are loaded, and may fsync next to nothing."""
    for name in "abc":
        seam.create(path=name, content=name.encode() * 700)
        seam.fsync(path=name)
        seam.fsync_dir(directory="")
        seam.append(path=name, content=b"more")
        seam.replace_file(path=name, content=b"new")
        seam.the_same_is_everywhere()


def test_any_operations_do_the_same_on_every_disk_and_what_was_fsynced_lasts(disks: Disks) -> None:
    machine = type("SeamHere", (Seam,), {"disks": disks})
    few = settings(
        max_examples=12,
        stateful_step_count=25,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=few)
    live_once(machine())
    recording = Recording.read(disks.recording)
    played = Disk(recording)
    played.play(len(recording.operations))
    kept = {path: kept.content for path, (is_directory, kept) in played.left(NOTHING_LOST).items() if not is_directory}
    backing = disks.recording.with_name("backing")
    assert kept == {p.relative_to(backing).as_posix(): p.read_bytes() for p in backing.rglob("*") if p.is_file()}
    assert len(disks.lasting) > 5
    for number, path, content in disks.lasting:
        disk = Disk(recording)
        disk.play(number)
        for kind in KINDS:
            left = disk.left(disk.cut(kind, Random(number)))
            assert left[path][1].content == content, (number, path, kind)


NOTHING_LOST: Final = Cut(ORDERED, 0, frozenset(), {})
