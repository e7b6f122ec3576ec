"""The reports of ``erase --check`` and ``erase --pending``: text for people, documents for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cleaner.engine.erase.checking import CheckedCertificate, Pending
from cleaner.report.page import Lines, Page
from policies.certificates import CertifiedReplica, CertifiedState, PendingReplica, ReplicaState
from policies.reasons import counted, moment
from storage.names import MANIFEST_FILE

if TYPE_CHECKING:
    from cleaner.documents.erasing import (
        ErasureCertificateDocument,
        ErasureCheckDocument,
        ErasurePendingDocument,
        PendingPartition,
    )

CHECK_SCHEMA: Final = "logcleaner.erasure_check/1"
PENDING_SCHEMA: Final = "logcleaner.erasure_pending/1"
_STATES: Final = {
    ReplicaState.ERASED: "erased",
    ReplicaState.STAYS: "owed: a record of a key stays there for now",
    ReplicaState.REFUSED: "owed: the erasure was refused",
    ReplicaState.FAILED: "owed: the erasure failed",
    ReplicaState.OWED: "owed: no certificate speaks of it",
    ReplicaState.UNKNOWN: "no certificate knows which brokers have it, for lack of cluster metadata",
}
_FILES: Final = {
    CertifiedState.AS_CERTIFIED: "as certified",
    CertifiedState.GROWN: "as certified, and grown",
    CertifiedState.REWRITTEN: "rewritten since",
    CertifiedState.GONE: "gone",
    CertifiedState.RETURNED: "with an erased record that is back",
    CertifiedState.DIFFERS: "that differ",
}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Files held against the certificate of an erasure."""

    checked: CheckedCertificate
    signed_by: str | None
    """Who signed the certificate; None if nobody did, or nobody checked who."""

    def document(self) -> ErasureCheckDocument:
        """Return what ``erase --check --json`` prints."""
        checked = self.checked
        return {
            "schema": "logcleaner.erasure_check/1",
            "certificate": str(checked.path),
            "certified_ms": checked.certificate["time_ms"],
            "request": checked.certificate["request"],
            "signed_by": self.signed_by,
            "wrong": checked.is_wrong,
            "files": [
                {"path": str(one.path), "state": one.verdict.state, "text": one.verdict.text} for one in checked.files
            ],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a line for each file that is not as certified, and the sums."""
        for one in self.checked.files:
            state = one.verdict.state
            if state.is_wrong or page.every_segment or state not in (CertifiedState.AS_CERTIFIED, CertifiedState.GROWN):
                page.line(f"{one.path}: {state}: {one.verdict.text}", "bold red" if state.is_wrong else "", hanging=2)
        numbers = Counter(one.verdict.state for one in self.checked.files)
        told = [f"{numbers[state]:,} {words}" for state, words in _FILES.items() if numbers[state]]
        page.line(f"{counted(len(self.checked.files), 'file')}: {', '.join(told) or 'none certified'}", hanging=2)
        page.line(f"certified {moment(self.checked.certificate['time_ms'])}{_by(self.signed_by)}", hanging=2)
        if numbers[CertifiedState.REWRITTEN] or numbers[CertifiedState.GONE]:
            page.line("logcleaner prove-erased shows whether files that were rewritten since hold a key.", hanging=2)
        yield page.text


@dataclass(frozen=True, slots=True)
class PendingReport:
    """The certificates of all brokers, side by side."""

    pending: Pending

    def document(self) -> ErasurePendingDocument:
        """Return what ``erase --pending --json`` prints."""
        return {
            "schema": "logcleaner.erasure_pending/1",
            "request": self.pending.certificates[0]["request"],
            "pending": self.pending.is_pending,
            "replicas": [self._replica(one) for one in self.pending.replicas],
            "copies": [
                {
                    "certificate": str(path),
                    "host": self._certificate_at(path)["host"],
                    "path": one["path"],
                    "original": one["copy_of"],
                }
                for path, one in self.pending.copies
                if one["copy_of"] is not None
            ],
            "holders": [
                {"certificate": str(path), "path": holder["path"], "values": holder["values"]}
                for path, holder in self.pending.holders
            ],
            "not_searched": [{"certificate": str(path), "text": what} for path, what in self.pending.not_searched],
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield a row for each replica, a line for each file that nothing removes, and the sum."""
        replicas = self.pending.replicas
        names = [f"{one.topic}-{one.partition}" for one in replicas]
        columns = max(map(len, names), default=0)
        for name, one in zip(names, replicas, strict=True):
            broker = "        " if one.node_id is None else f"broker {one.node_id}"
            page.row(f"{name:{columns}}  {broker:12}  {_STATES[one.state]}{self._when(one)}", _style(one))
            for other in one.elsewhere:
                page.line(self._elsewhere(other), "bold red", indent=columns + 2, hanging=2)
        if any(one.elsewhere for one in replicas):
            page.line(
                "A copied log dir has the ids of its broker: leave out the certificates of what is not, or no longer, "
                "the broker's log dir.",
                "bold red",
                hanging=2,
            )
        for path, copy in self.pending.copies:
            page.line(
                f"{copy['path']} on {self._certificate_at(path)['host']}: a copy of {copy['copy_of']}, which is no "
                f"replica ({path}). If the broker runs on it now, remove {MANIFEST_FILE} from it, and certify it anew.",
                "bold red",
                hanging=2,
            )
        originals: dict[tuple[str, Path], int] = {}
        for path, holder in self.pending.holders:
            original = self._certificate_at(path)["original"]
            if original is not None and holder["path"].startswith(f"{original}/"):
                originals[original, path] = originals.get((original, path), 0) + holder["values"]
            else:
                page.line(
                    f"{holder['path']}: {_keyed(holder['values'])}, which nothing removes ({path})",
                    "bold red",
                    hanging=2,
                )
        for (original, path), values in originals.items():
            text = f"{original}: {_keyed(values)}: a copy was made without them, and this is the original ({path})"
            page.line(text, "bold red", hanging=2)
        for path, what in self.pending.not_searched:
            page.line(f"{what}: not searched, so nobody knows ({path})", "bold red", hanging=2)
        owed = sum(one.is_owed for one in replicas)
        done = f"{counted(len(replicas) - owed, 'replica')} erased"
        page.line(f"{done}; {owed:,} owed" if owed else f"{done}; none is owed")
        yield page.text

    def _when(self, one: PendingReplica) -> str:
        if one.certified is None:
            return ""
        known = one.certified
        return f", {moment(known.time_ms)} in {known.log_dir} on {known.host}"

    def _elsewhere(self, other: CertifiedReplica) -> str:
        path, outcome = self.pending.paths[other.source], _STATES[ReplicaState(other.outcome)]
        return f"also in {other.log_dir} on {other.host}: {outcome} ({path})"

    def _certificate_at(self, path: Path) -> ErasureCertificateDocument:
        return self.pending.certificates[self.pending.paths.index(path)]

    def _replica(self, one: PendingReplica) -> PendingPartition:
        source = one.certified.source if one.certified else None
        return {
            "topic": one.topic,
            "partition": one.partition,
            "node_id": one.node_id,
            "state": one.state,
            "certificate": None if source is None else str(self.pending.paths[source]),
            "certified_ms": one.certified.time_ms if one.certified else None,
            "host": one.certified.host if one.certified else None,
            "log_dir": one.certified.log_dir if one.certified else None,
            "elsewhere": [
                {
                    "certificate": str(self.pending.paths[other.source]),
                    "host": other.host,
                    "log_dir": other.log_dir,
                    "outcome": other.outcome,
                }
                for other in one.elsewhere
            ],
        }


def _keyed(values: int) -> str:
    return counted(values, "record of the keys", "records of the keys")


def _style(one: PendingReplica) -> str:
    return "bold red" if one.is_owed else ""


def _by(signed_by: str | None) -> str:
    return f", signed by {signed_by}" if signed_by else ""
