"""The report of ``prove-erased``: a page for people to print, ``logcleaner.erasure/1`` for machines.

Both share the words: limits of the proof, the result for a file, offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cleaner.engine.prove_erased.places import FileContent
from cleaner.engine.prove_erased.proving import ErasureProof
from cleaner.engine.prove_erased.searching import FileEvidence, KeyHits
from cleaner.engine.prove_erased.wanted import KeyEncoding
from cleaner.report.page import Page
from policies.prove_erased import Departure, Need
from policies.reasons import counted, moment, size

if TYPE_CHECKING:
    from cleaner.report.page import Lines

_LIMITS: Final = (
    "Only the log dirs named above were searched. Replicas on other brokers, mirrors, backups, copies elsewhere, "
    "and remote storage that --tier did not name, were not.",
    "Keys of records were searched. Values and headers were not: a record of another key may hold the same data.",
    "Blocks of files that were unlinked before, snapshots of the file system and files that a process keeps open after "
    "they were unlinked were not searched.",
    "clean never closes an active segment to erase a key. A broker closes it when a record is appended behind "
    "segment.ms.",
)
_OF_ENCODING: Final = {
    KeyEncoding.JSON: "A JSON key is found as it was given, compact or spaced, escaped or not. A key with the names "
    "of an object in another order, or within a schema envelope, is not found.",
    KeyEncoding.AVRO_WIRE: "An Avro key is found behind any schema id as a string, and a whole number as an int or "
    "long, alone or as the one field of a record; other schemas are not tried.",
}

SCHEMA: Final = "logcleaner.erasure/1"

_KEYS_TOLD: Final = 10
_FILES_TOLD: Final = 20
_OFFSETS_TOLD: Final = 8
_NEEDS: Final = {
    Need.ROLL: "a broker appends a record to the partition, and so closes its active segment",
    Need.WRITE: "more is written to a partition: a round is due, or retention.bytes exceeded",
    Need.DELETE_KEY: "a tombstone is written for each key whose latest record is a value",
    Need.CONFIRM: "a person removes what holds a partition back",
    Need.REMOVE: "a person removes files or directories that nothing else removes",
    Need.BROKER: "a broker runs",
}


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """A proof that keys are gone, or of the places where they are."""

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


def fill(page: Page, proof: ErasureProof, version: str) -> None:
    """Fill a page with a proof."""
    _head(page, proof, version)
    page.line()
    _answer(page, proof)
    if proof.holding:
        page.line()
        page.line("Files that hold a key", "bold")
        _holding(page, proof)
    if proof.undecoded or proof.unread:
        page.line()
        page.line("Not searched", "bold")
        _not_searched(page, proof)
    page.line()
    page.line("What this does not cover", "bold")
    for limit in limits_of(proof):
        page.line(f"- {limit}", indent=2, hanging=2)
    page.line()
    _evidence(page, proof)


def limits_of(proof: ErasureProof) -> tuple[str, ...]:
    """Return the limits of the proof, a sentence or two each."""
    found, encoding = list(_LIMITS), proof.question.encoding.value
    found.append(f"Keys were searched as {encoding}: a key that a producer wrote in another encoding was not found.")
    if proof.question.encoding in _OF_ENCODING:
        found.append(_OF_ENCODING[proof.question.encoding])
    if proof.question.globs:
        found.append(f"Only partitions that match {', '.join(proof.question.globs)} were searched.")
    if proof.locked_by:
        found.append(f"{proof.locked_by[0]} holds a log dir: what was written since the search began was not searched.")
    if not proof.is_settled:
        found.append("New files kept appearing: the newest were not searched. Run again while the broker is stopped.")
    if proof.remote_topics:
        found.append(f"Segments of {', '.join(proof.remote_topics)} lie in remote storage, too: not searched.")
    return tuple(found)


def result_of(evidence: FileEvidence) -> str:
    """Return the result for a file in a word: the closed list of ``result`` in the document."""
    if evidence.hits:
        return "found"
    if evidence.error is not None:
        return "unread"
    if evidence.undecoded:
        return "undecoded"
    return "no_keys" if evidence.place.content is FileContent.NO_KEYS else "clear"


def offsets_of(hits: KeyHits, told_max: int) -> str:
    """Return the offsets of a key's records in words: ``4, 17 and 3 more``."""
    offsets: Sequence[int] = [hit.offset for hit in hits.told[:told_max]]
    left = hits.values + hits.tombstones - len(offsets)
    told = ", ".join(map(str, offsets))
    return f"{told} and {left:,} more" if left else told


def _head(page: Page, proof: ErasureProof, version: str) -> None:
    question = proof.question
    page.line("Search for keys in log directories", "bold")
    told = [repr(key.given) for key in question.keys[:_KEYS_TOLD]]
    left = len(question.keys) - len(told)
    more = f" and {left:,} more" if left else ""
    rows = [
        ("made", f"{moment(proof.now_ms)} by logcleaner {version}"),
        ("keys", f"{counted(len(question.keys), 'key')} as {question.encoding.value}: {', '.join(told)}{more}"),
        *(("log dir" if not place else "", str(path)) for place, path in enumerate(question.log_dirs)),
    ]
    if question.globs:
        rows.append(("topics", ", ".join(question.globs)))
    for label, words in rows:
        page.line(f"{label:9}{words}", indent=2, hanging=9)


def _answer(page: Page, proof: ErasureProof) -> None:
    searched = sum(evidence.sha256 is not None for evidence in proof.evidences)
    records = sum(evidence.records for evidence in proof.evidences)
    extent = f"{counted(records, 'record')} in {counted(searched, 'file')}, {size(proof.bytes_read)}"
    if not proof.holding:
        is_complete = not (proof.undecoded or proof.unread) and proof.is_settled
        keys = "The key is" if len(proof.question.keys) == 1 else "The keys are"
        if is_complete:
            page.line(f"{keys} in no file of these log dirs.", "bold green")
        else:
            page.line(f"{keys} in no file that could be searched, and not every file could.", "bold yellow", hanging=2)
        page.line(f"Searched: {extent}.", hanging=2)
        return
    found = {hits.key for evidence in proof.holding for hits in evidence.hits}
    values = sum(hits.values for evidence in proof.holding for hits in evidence.hits)
    tombstones = sum(hits.tombstones for evidence in proof.holding for hits in evidence.hits)
    what = f"{counted(values, 'value')} and {counted(tombstones, 'tombstone')}"
    keys = counted(len(found), "key")
    verb = "is" if len(found) == 1 else "are"
    page.line(f"{keys} {verb} still here: {what} in {counted(len(proof.holding), 'file')}.", "bold red", hanging=2)
    page.line(f"Searched: {extent}.", hanging=2)
    for words in _by_when(proof):
        page.line(words, hanging=2)


def _by_when(proof: ErasureProof) -> Iterator[str]:
    gone_ms, needs = proof.gone_by_ms, proof.needs
    if gone_ms is not None and not needs:
        yield f"Every copy here is gone by {moment(gone_ms)}, if clean, the daemon or a broker is at work then."
    elif gone_ms is not None:
        yield f"Every copy here is gone by {moment(gone_ms)} at the earliest. This must happen first:"
    else:
        yield "No date is known by which every copy here is gone. This must happen first:"
    for need in needs:
        yield f"  - {_NEEDS[need]}"


def _evidence(page: Page, proof: ErasureProof) -> None:
    results = Counter(map(result_of, proof.evidences))
    words = {
        "clear": "searched, without a key",
        "found": "with a key",
        "undecoded": "not decoded in full",
        "unread": "not read",
        "no_keys": "that hold no keys by their kind (indexes, checkpoints)",
    }
    page.line(f"Evidence: {counted(len(proof.evidences), 'file')}", "bold")
    for result, told in words.items():
        if results[result]:
            page.line(f"{results[result]:,} {told}", indent=2)
    if not page.every_segment:
        page.line("-v lists each file with its size and SHA-256; --json has them, too.", indent=2)
        return
    for evidence in proof.evidences:
        _file(page, evidence)


def _file(page: Page, evidence: FileEvidence) -> None:
    page.line(f"{evidence.place.path}: {result_of(evidence)}, {evidence.size_bytes:,} bytes", indent=2, hanging=2)
    if evidence.sha256 is not None:
        page.line(f"sha256 {evidence.sha256}", indent=4)


def _holding(page: Page, proof: ErasureProof) -> None:
    told = proof.holding if page.every_segment else proof.holding[:_FILES_TOLD]
    for evidence in told:
        page.line(str(evidence.place.path), indent=2, hanging=2)
        groups: dict[Departure, list[KeyHits]] = {}
        for hits in evidence.hits:
            groups.setdefault(proof.departures[evidence.place.path, hits.key], []).append(hits)
        for departure, together in groups.items():
            page.line(_found(proof, together), indent=4, hanging=2)
            page.line(f"{_gone(departure)} {departure.text}", indent=4, hanging=2)
    left = len(proof.holding) - len(told)
    if left:
        page.line(f"... and {counted(left, 'file')} more: -v tells all, --json too.", indent=2)


def _found(proof: ErasureProof, together: list[KeyHits]) -> str:
    if len(together) > 1:
        values, tombstones = sum(one.values for one in together), sum(one.tombstones for one in together)
        return f"{counted(len(together), 'key')}: {counted(values, 'value')}, {counted(tombstones, 'tombstone')}"
    (hits,) = together
    key = proof.question.keys[hits.key].given
    what = " and ".join(
        counted(number, noun) for number, noun in ((hits.values, "value"), (hits.tombstones, "tombstone")) if number
    )
    plural = "s" if hits.values + hits.tombstones > 1 else ""
    return f"{key!r}: {what} at offset{plural} {offsets_of(hits, _OFFSETS_TOLD)}"


def _gone(departure: Departure) -> str:
    if departure.at_ms is None:
        return "No date."
    return f"Gone by {moment(departure.at_ms)}{'' if departure.is_certain else ' at the earliest'}."


def _not_searched(page: Page, proof: ErasureProof) -> None:
    told = [*proof.unread, *proof.undecoded]
    shown = told if page.every_segment else told[:_FILES_TOLD]
    for evidence in shown:
        if evidence.error is not None:
            page.line(evidence.error, indent=2, hanging=2)
        for part in evidence.undecoded:
            where = "" if part.position is None else f" at byte {part.position}"
            page.line(f"{evidence.place.path}{where}: {part.cause}", indent=2, hanging=2)
    if len(told) > len(shown):
        page.line(f"... and {counted(len(told) - len(shown), 'file')} more: -v tells all, --json too.", indent=2)
