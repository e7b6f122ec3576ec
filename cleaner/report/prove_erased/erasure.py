"""The report of ``prove-erased``: a page for people to print, ``logcleaner.erasure/1`` for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.prove_erased.proving import ErasureProof
from cleaner.engine.prove_erased.searching import FileEvidence, KeyHits
from cleaner.report.prove_erased.erasure_words import limits_of, result_of

if TYPE_CHECKING:
    from cleaner.report.page import Lines, Page

SCHEMA: Final = "logcleaner.erasure/1"


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """A proof that keys are gone, or of where they are."""

    proof: ErasureProof
    version: str
    """The version of the program that searched."""

    def document(self) -> dict[str, Any]:
        """Return what ``prove-erased --json`` prints: sizes in bytes, times in epoch ms, null for what is not known."""
        proof = self.proof
        return {
            "schema": SCHEMA,
            "version": self.version,
            "now": proof.now_ms,
            "is_erased": not proof.holding,
            "is_complete": not (proof.undecoded or proof.unread) and proof.is_settled,
            "gone_by_ms": proof.gone_by_ms if proof.holding else None,
            "needs": [need.value for need in proof.needs],
            "encoding": proof.question.encoding.value,
            "log_dirs": [str(path) for path in proof.question.log_dirs],
            "topics": list(proof.question.globs),
            "keys": [self._key(place) for place in range(len(proof.question.keys))],
            "files": [self._file(evidence) for evidence in proof.evidences],
            "limits": list(limits_of(proof)),
            "totals": {
                "files": len(proof.evidences),
                "searched": sum(evidence.sha256 is not None for evidence in proof.evidences),
                "found": len(proof.holding),
                "undecoded": len(proof.undecoded),
                "unread": len(proof.unread),
                "records": sum(evidence.records for evidence in proof.evidences),
                "bytes": proof.bytes_read,
            },
        }

    def text(self, page: Page) -> Iterator[Lines]:
        """Yield the page."""
        from cleaner.report.prove_erased.erasure_text import fill  # noqa: PLC0415 - which --json does without

        fill(page, self.proof, self.version)
        yield page.text

    def _key(self, place: int) -> dict[str, Any]:
        key = self.proof.question.keys[place]
        hits = [one for evidence in self.proof.holding for one in evidence.hits if one.key == place]
        departures = [one for (_, key_place), one in self.proof.departures.items() if key_place == place]
        moments_ms = [one.at_ms for one in departures if one.at_ms is not None]
        return {
            "given": key.given,
            "forms": [form.hex() for form in key.forms],
            "payloads": [payload.hex() for payload in key.payloads],
            "files": len(hits),
            "values": sum(one.values for one in hits),
            "tombstones": sum(one.tombstones for one in hits),
            "gone_by_ms": max(moments_ms) if moments_ms and len(moments_ms) == len(departures) else None,
        }

    def _file(self, evidence: FileEvidence) -> dict[str, Any]:
        place = evidence.place
        return {
            "path": str(place.path),
            "log_dir": str(place.log_dir),
            "topic": place.topic_partition.topic if place.topic_partition else None,
            "partition": place.topic_partition.partition if place.topic_partition else None,
            "directory": place.home.value,
            "content": place.content.value,
            "result": result_of(evidence),
            "bytes": evidence.size_bytes,
            "sha256": evidence.sha256,
            "ranges": [list(one) for one in evidence.ranges],
            "records": evidence.records,
            "found": [self._found(evidence, hits) for hits in evidence.hits],
            "undecoded": [one._asdict() for one in evidence.undecoded],
            "error": evidence.error,
        }

    def _found(self, evidence: FileEvidence, hits: KeyHits) -> dict[str, Any]:
        departure = self.proof.departures[evidence.place.path, hits.key]
        return {
            "key": hits.key,
            "values": hits.values,
            "tombstones": hits.tombstones,
            "records": [hit._asdict() for hit in hits.told],
            "gone_by_ms": departure.at_ms,
            "code": departure.code.value,
            "needs": [need.value for need in departure.needs],
            "text": departure.text,
        }
