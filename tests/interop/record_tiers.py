"""Makes the samples of ``tests/data/tiers.tar.zst``: tiers that real brokers wrote, for tests without a JVM.

``python -m tests.interop.record_tiers DIR`` makes those of Kafka's own storage. With the jars of Aiven's plugin and of
a Kafka that loads it, as ``tests/data/README.md`` says, it makes those of the plugin, too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from dataclasses import astuple
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.interop import tiering
from tests.interop.kafka_jars import judging_version, tiering_classpath
from tests.interop.tiering import Tiered

KEY_ID: Final = "key1"
_PLUGIN: Final = "io.aiven.kafka.tieredstorage"
_NOT_KEPT: Final = ("remote-log-index-cache", ".lock")


def main() -> None:
    """Make each sample in a directory of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kafka", type=Path, help="a directory with the jars of the Kafka that loads the plugin")
    parser.add_argument("--plugin", help="class path of Aiven's plugin")
    options = parser.parse_args()
    classpath = tiering_classpath(judging_version())
    for name, make in {"local": tiering.tiered, "divided": tiering.divided}.items():
        keep(make(classpath, new(options.directory / "work" / name)), options.directory / name)
    if options.plugin:
        classpath = os.pathsep.join(str(jar) for jar in sorted(options.kafka.glob("*.jar")))
        make_keys(options.directory)
        for name, own in plugin_settings(options.directory).items():
            scratch = new(options.directory / "work" / name)
            new(scratch / "tier")
            storage = {**of_plugin(options.plugin, scratch / "tier"), **own}
            keep(tiering.tiered(classpath, scratch, storage), options.directory / name)
    shutil.rmtree(options.directory / "work")


def new(directory: Path) -> Path:
    """Make a directory with its parents, and return it."""
    directory.mkdir(parents=True)
    return directory


def of_plugin(classpath: str, tier: Path) -> dict[str, str]:
    """Return settings by which the plugin keeps the tier in a directory: small chunks, a prefix within a name."""
    return {
        "remote.log.storage.manager.class.name": f"{_PLUGIN}.RemoteStorageManager",
        "remote.log.storage.manager.class.path": classpath,
        "remote.log.metadata.custom.metadata.max.bytes": "512",
        "rsm.config.chunk.size": "1000",
        "rsm.config.storage.backend.class": f"{_PLUGIN}.storage.filesystem.FileSystemStorage",
        "rsm.config.storage.root": str(tier),
        "rsm.config.storage.overwrite.enabled": "true",
        "rsm.config.key.prefix": "some/prefix-",
        "rsm.config.fetch.chunk.cache.class": f"{_PLUGIN}.fetch.cache.MemoryChunkCache",
        "rsm.config.fetch.chunk.cache.size": "1000000",
    }


def plugin_settings(directory: Path) -> dict[str, dict[str, str]]:
    """Return what differs between the samples of the plugin."""
    pair = f"rsm.config.encryption.key.pairs.{KEY_ID}"
    compressed = {"rsm.config.compression.enabled": "true"}
    encrypted = {
        "rsm.config.encryption.enabled": "true",
        "rsm.config.encryption.key.pair.id": KEY_ID,
        "rsm.config.encryption.key.pairs": KEY_ID,
        f"{pair}.public.key.file": str(directory / "public.pem"),
        f"{pair}.private.key.file": str(directory / "private.pem"),
    }
    named = {"rsm.config.custom.metadata.fields.include": "REMOTE_SIZE,OBJECT_PREFIX,OBJECT_KEY"}
    return {
        "aiven": {},
        "aiven-zstd": compressed,
        "aiven-encrypted": encrypted,
        "aiven-zstd-encrypted": {**compressed, **encrypted, **named},
    }


def make_keys(directory: Path) -> None:
    """Make a pair of keys for tests, as the plugin wants them."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = serialization.Encoding.PEM
    secret = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (directory / "private.pem").write_bytes(secret)
    public = private.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    (directory / "public.pem").write_bytes(public)


def keep(tiered: Tiered, directory: Path) -> None:
    """Keep the log dir, the tier and what consumers read."""
    shutil.copytree(tiered.log_dir, new(directory) / "log", ignore=shutil.ignore_patterns(*_NOT_KEPT))
    shutil.copytree(tiered.tier, directory / "tier")
    read = {
        name: {
            isolation: [astuple(r) for r in records] for (of, isolation), records in tiered.read.items() if of == name
        }
        for name in tiered.first_local_offsets
    }
    (directory / "read.json").write_text(json.dumps(read))


if __name__ == "__main__":
    main()
