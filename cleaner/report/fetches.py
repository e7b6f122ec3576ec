"""The report of ``fetch``: text for people, and for machines, ``logcleaner.fetch/1``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cleaner.printable import printable
from cleaner.report.page import ATTENTION, Lines, Page
from cleaner.report.verify import tell_findings
from policies.reasons import counted, size

if TYPE_CHECKING:
    from cleaner.documents.changes import FetchDocument
    from cleaner.engine.fetch import Fetched
    from cleaner.engine.verify.checked import Checked

SCHEMA: Final = "logcleaner.fetch/1"


@dataclass(frozen=True, slots=True)
class FetchReport:
    """A copy that was brought here, and what was found in it."""

    fetched: Fetched
    checked: Checked
    is_finished: bool

    @property
    def place(self) -> str:
        """The directory in which the files lie."""
        return self.fetched.directory if self.is_finished else self.fetched.unfinished

    def document(self) -> FetchDocument:
        """Return what ``fetch --json`` prints."""
        fetched = self.fetched
        damaged = [(f"{self.place}/{path}", problem) for path, problem in fetched.differing]
        damaged += [(self._moved(finding.path), finding.text) for finding in self.checked.findings]
        return {
            "schema": SCHEMA,
            "source": fetched.source,
            "directory": fetched.directory,
            "finished": self.is_finished,
            "unfinished": None if self.is_finished else fetched.unfinished,
            "files": fetched.files,
            "bytes": fetched.size_bytes,
            "resumed_files": fetched.resumed_files,
            "resumed_bytes": fetched.resumed_bytes,
            "has_manifest": fetched.has_manifest,
            "left_out": list(fetched.left_out),
            "damaged": [{"path": path, "problem": problem} for path, problem in damaged],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield what is damaged, what was brought, and how it was checked."""
        fetched, checked = self.fetched, self.checked
        tell_findings(page, [finding._replace(path=self._moved(finding.path)) for finding in checked.findings])
        for path, problem in fetched.differing:
            page.line(f"{printable(path)}: {problem}", "bold", hanging=2)
        for name in fetched.left_out:
            page.note(f"{printable(name)} was not fetched")
        resumed = f"; {size(fetched.resumed_bytes)} of that by an earlier fetch" if fetched.resumed_files else ""
        page.line(
            f"{printable(fetched.source)}: {counted(fetched.files, 'file')}, {size(fetched.size_bytes)} in "
            f"{printable(self.place)}{resumed}",
            hanging=2,
        )
        sums = "every SHA-256 of the manifest, " if fetched.has_manifest else ""
        is_well = not fetched.differing and not checked.is_damaged
        page.line(
            f"Checked: {sums}{size(checked.size_bytes)} of batches in {counted(checked.segments, 'segment')}, their "
            f"indexes and snapshots: {'nothing is damaged' if is_well else 'DAMAGED'}",
            hanging=2,
        )
        if not fetched.has_manifest:
            page.line("There is no manifest, so nothing tells whether the log dir is whole.", ATTENTION)
        yield page.text

    def _moved(self, path: str) -> str:
        """Return a path in the directory that has its name by now."""
        return path.replace(self.fetched.unfinished, self.fetched.directory, 1) if self.is_finished else path
