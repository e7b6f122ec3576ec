"""What the OCI image specification 1.1 asks of an image archive, as checks.

Each function returns one sentence for each rule that is broken. The rules are those of the specification's documents on
the layout, the index, the manifest, descriptors, the configuration and annotations, as far as an image can break them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final

IMAGE: Final = "application/vnd.oci.image"
LAYERS: Final = {f"{IMAGE}.layer.v1.tar{packed}" for packed in ("", "+gzip", "+zstd")}
MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
ARCHITECTURES: Final = {"amd64", "arm64"}
"""Of Go's GOARCH, those for which logcleaner is made."""
INDEX: Final = {"schemaVersion", "mediaType", "artifactType", "manifests", "subject", "annotations"}
MANIFEST: Final = {"schemaVersion", "mediaType", "artifactType", "config", "layers", "subject", "annotations"}
DESCRIPTOR: Final = {"mediaType", "digest", "size", "urls", "annotations", "data", "artifactType", "platform"}
CONFIG: Final = {
    *("created", "author", "architecture", "variant", "os", "os.version", "os.features"),
    *("config", "rootfs", "history"),
}
RUN: Final = {
    *("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels", "StopSignal"),
    "ArgsEscaped",
}
HISTORY: Final = {"created", "author", "created_by", "comment", "empty_layer"}
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Archive:
    """The files of an image archive, by name."""

    files: Mapping[str, bytes]

    @classmethod
    def read(cls, path: Path) -> Archive:
        """Read an archive into memory."""
        with tarfile.open(path, "r:") as archive:
            members = [member for member in archive if member.isreg()]
            return cls({member.name: archive.extractfile(member).read() for member in members})  # type: ignore[union-attr]

    def blob(self, descriptor: Document) -> bytes:
        """Return what a descriptor describes."""
        return self.files[f"blobs/{descriptor['digest'].replace(':', '/')}"]

    @cached_property
    def index(self) -> Document:
        """The index of the archive."""
        return _parsed(self.files["index.json"])

    @cached_property
    def manifest(self) -> Document:
        """The manifest of the one image."""
        (descriptor,) = self.index["manifests"]
        return _parsed(self.blob(descriptor))

    @cached_property
    def config(self) -> Document:
        """The configuration of the one image."""
        return _parsed(self.blob(self.manifest["config"]))

    @cached_property
    def layer(self) -> bytes:
        """The one layer, as a tar file."""
        (descriptor,) = self.manifest["layers"]
        return gzip.decompress(self.blob(descriptor))

    @cached_property
    def entries(self) -> list[tarfile.TarInfo]:
        """The entries of the layer, in their order."""
        with tarfile.open(fileobj=io.BytesIO(self.layer)) as layer:
            return layer.getmembers()


def _parsed(content: bytes) -> Document:
    parsed: Document = json.loads(content)
    return parsed


def problems_of(archive: Archive) -> list[str]:
    """Return what is wrong with an archive of one image."""
    layout = json.loads(archive.files["oci-layout"])
    found = [] if layout == {"imageLayoutVersion": "1.0.0"} else [f"oci-layout: {layout}"]
    descriptors = [*archive.index["manifests"], archive.manifest["config"], *archive.manifest["layers"]]
    found += [problem for descriptor in descriptors for problem in problems_of_blob(archive, descriptor)]
    found += problems_of_index(archive.index)
    found += problems_of_manifest(archive.manifest)
    found += problems_of_config(archive.config, len(archive.manifest["layers"]))
    diff_id = f"sha256:{hashlib.sha256(archive.layer).hexdigest()}"
    if archive.config["rootfs"]["diff_ids"] != [diff_id]:
        found.append("config: rootfs.diff_ids are not the digests of the unpacked layers")
    described = {f"blobs/{descriptor['digest'].replace(':', '/')}" for descriptor in descriptors}
    found += [
        f"{name}: no descriptor names it"
        for name in archive.files
        if name.startswith("blobs/") and name not in described
    ]
    return [*found, *problems_of_layer(archive.entries)]


def problems_of_blob(archive: Archive, descriptor: Document) -> Iterator[str]:
    """Yield what is wrong with a descriptor, or with the blob that it describes."""
    yield from _problems_of_descriptor(descriptor, "descriptor")
    named = str(descriptor.get("digest"))
    content = archive.files.get(f"blobs/{named.replace(':', '/')}")
    if content is None:
        yield f"{named}: there is no such blob"
    elif named != f"sha256:{hashlib.sha256(content).hexdigest()}":
        yield f"{named}: is not the digest of its blob"
    elif descriptor.get("size") != len(content):
        yield f"{named}: has {len(content)} bytes, its descriptor says {descriptor.get('size')}"


def problems_of_index(index: Document) -> list[str]:
    """Return what is wrong with an index."""
    found = [*_head(index, INDEX, f"{IMAGE}.index.v1+json", "index")]
    for descriptor in index.get("manifests", ()):
        platform = descriptor.get("platform", {})
        if descriptor.get("mediaType") != f"{IMAGE}.manifest.v1+json":
            found.append("index: names something else than a manifest")
        if platform.get("os") != "linux" or platform.get("architecture") not in ARCHITECTURES:
            found.append(f"index: platform is {platform}")
        found += _problems_of_texts(descriptor.get("annotations", {}), "index: annotations")
    return found if index.get("manifests") else [*found, "index: has no manifests"]


def problems_of_manifest(manifest: Document) -> list[str]:
    """Return what is wrong with a manifest."""
    found = [*_head(manifest, MANIFEST, f"{IMAGE}.manifest.v1+json", "manifest")]
    found += _problems_of_descriptor(manifest.get("config", {}), "manifest: config")
    if manifest.get("config", {}).get("mediaType") != f"{IMAGE}.config.v1+json":
        found.append("manifest: config is no image configuration")
    for layer in manifest.get("layers", ()):
        found += _problems_of_descriptor(layer, "manifest: layer")
        if layer.get("mediaType") not in LAYERS:
            found.append(f"manifest: {layer.get('mediaType')} is no layer")
    found += _problems_of_texts(manifest.get("annotations", {}), "manifest: annotations")
    return found if manifest.get("layers") else [*found, "manifest: has no layers"]


def problems_of_config(config: Document, layers: int) -> list[str]:
    """Return what is wrong with the configuration of an image that has so many layers."""
    found = [*_unknown(config, CONFIG, "config")]
    if config.get("os") != "linux" or config.get("architecture") not in ARCHITECTURES:
        found.append(f"config: platform is {config.get('os')}/{config.get('architecture')}")
    found += _problems_of_time(config.get("created"), "config: created")
    rootfs = config.get("rootfs", {})
    diff_ids = rootfs.get("diff_ids", [])
    if set(rootfs) != {"type", "diff_ids"} or rootfs["type"] != "layers":
        found.append("config: rootfs is no list of layers")
    if len(diff_ids) != layers or not all(isinstance(one, str) and DIGEST.fullmatch(one) for one in diff_ids):
        found.append("config: rootfs.diff_ids are not a digest for each layer")
    history = config.get("history", [])
    for step in history:
        found += [
            *_unknown(step, HISTORY, "config: history"),
            *_problems_of_time(step.get("created"), "config: history"),
        ]
    if history and sum(not step.get("empty_layer", False) for step in history) != layers:
        found.append("config: history has not a step for each layer")
    return [*found, *_problems_of_run(config.get("config", {}))]


def problems_of_layer(entries: list[tarfile.TarInfo]) -> Iterator[str]:
    """Yield what is wrong with the entries of a layer: names, order, kinds."""
    seen: set[PurePosixPath] = {PurePosixPath()}
    for entry in entries:
        path = PurePosixPath(entry.name)
        if path.is_absolute() or ".." in path.parts or path.name.startswith(".wh."):
            yield f"layer: {entry.name} is no name for an entry"
        if path in seen or path.parent not in seen:
            yield f"layer: {entry.name} is there twice, or before its directory"
        if not (entry.isreg() or entry.isdir() or entry.issym()):
            yield f"layer: {entry.name} is no file, directory or symlink"
        seen.add(path)


def _problems_of_run(run: Document) -> Iterator[str]:
    yield from _unknown(run, RUN, "config: config")
    for key in ("Env", "Entrypoint", "Cmd"):
        if not all(isinstance(text, str) for text in run.get(key) or ()):
            yield f"config: {key} is no list of texts"
    if not all("=" in text for text in run.get("Env") or ()):
        yield "config: Env has an entry without ="
    if not isinstance(run.get("User", ""), str) or not isinstance(run.get("WorkingDir", ""), str):
        yield "config: User or WorkingDir is no text"
    yield from _problems_of_texts(run.get("Labels") or {}, "config: Labels")


def _head(document: Document, known: set[str], media_type: str, where: str) -> Iterator[str]:
    yield from _unknown(document, known, where)
    if document.get("schemaVersion") != 2:
        yield f"{where}: schemaVersion is not 2"
    if document.get("mediaType", media_type) != media_type:
        yield f"{where}: mediaType is {document.get('mediaType')}"


def _problems_of_descriptor(descriptor: Document, where: str) -> Iterator[str]:
    yield from _unknown(descriptor, DESCRIPTOR, where)
    if not MEDIA_TYPE.fullmatch(str(descriptor.get("mediaType", ""))):
        yield f"{where}: mediaType is {descriptor.get('mediaType')}"
    if not DIGEST.fullmatch(str(descriptor.get("digest", ""))):
        yield f"{where}: digest is {descriptor.get('digest')}"
    size = descriptor.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        yield f"{where}: size is {size}"


def _problems_of_texts(texts: Document, where: str) -> Iterator[str]:
    for key, text in texts.items():
        if not key or not isinstance(text, str):
            yield f"{where}: {key!r} is {text!r}"
        elif key == "org.opencontainers.image.created":
            yield from _problems_of_time(text, where)


def _problems_of_time(text: Any, where: str) -> Iterator[str]:
    """Yield a sentence unless this is a time as RFC 3339 has it."""
    try:
        told = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        yield f"{where}: {text!r} is no time"
    else:
        if told.tzinfo is None or "T" not in text:
            yield f"{where}: {text!r} is no time with its zone"


def _unknown(document: Document, known: set[str], where: str) -> Iterator[str]:
    for name in sorted(set(document) - known):
        yield f"{where}: no such property: {name}"
