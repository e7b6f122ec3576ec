"""The words that the page and the document of a proof share: its limits, the result for a file, offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cleaner.engine.prove_erased.places import FileContent
from cleaner.engine.prove_erased.proving import ErasureProof
from cleaner.engine.prove_erased.searching import FileEvidence, KeyHits
from cleaner.engine.prove_erased.wanted import KeyEncoding

_LIMITS: Final = (
    "Only the log dirs named above were searched. Replicas on other brokers, remote storage, mirrors, backups and "
    "copies elsewhere were not.",
    "Keys of records were searched. Values and headers were not: a record of another key may hold the same data.",
    "Blocks of files that were unlinked before, snapshots of the file system and files that a process keeps open after "
    "they were unlinked were not searched.",
    "clean never closes an active segment for this: a broker does, when a record is appended behind segment.ms.",
)
_OF_ENCODING: Final = {
    KeyEncoding.JSON: "A JSON key is found as it was given, and compact or spaced, escaped or not; with the names of "
    "an object in another order, or within a schema envelope, it is not.",
    KeyEncoding.AVRO_WIRE: "An Avro key is found behind any schema id as a string, and a whole number as an int or "
    "long, alone or as the one field of a record; other schemas are not tried.",
}


def limits_of(proof: ErasureProof) -> tuple[str, ...]:
    """Return what the proof does not cover, a sentence or two each."""
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
