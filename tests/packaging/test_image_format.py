"""The format of the image archive, with a stand-in for the bundle; test_image.py runs the image of the real one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.packaging import oci
from tests.packaging.oci import Archive, problems_of

ROOT = Path(__file__).parents[2]
COMMIT = "1700000000"
X86_64 = b"\x7fELF\x02\x01\x01" + bytes(9) + (2).to_bytes(2, "little") + (62).to_bytes(2, "little") + bytes(44)
METADATA = "lib/logcleaner-9.8.7.dist-info/METADATA"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A directory with what packaging/image looks at in a bundle."""
    directory = tmp_path / "logcleaner"
    (directory / METADATA).parent.mkdir(parents=True)
    (directory / METADATA).write_text("Name: logcleaner\n")
    (directory / "logcleaner").write_bytes(X86_64)
    (directory / "logcleaner").chmod(0o700)
    (directory / "lib/libc.so.6").write_text("a library")
    (directory / "lib/libc.so.6").chmod(0o600)
    (directory / "lib/libc.so").symlink_to("libc.so.6")
    return directory


def make(bundle: Path, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "packaging/image", bundle, directory],
        check=False, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": COMMIT, **environment},
    )  # fmt: skip


def made(bundle: Path, directory: Path, **environment: str) -> Path:
    done = make(bundle, directory, **environment)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


def test_an_image_keeps_every_rule_of_the_specification(bundle: Path, tmp_path: Path) -> None:
    archive = Archive.read(made(bundle, tmp_path))
    assert problems_of(archive) == []
    assert len(archive.files) == 6  # three blobs, and three files that lead to them


def changed(archive: Archive, name: str, change: Callable[[Any], None]) -> Archive:
    document = json.loads(archive.files[name])
    change(document)
    return Archive({**archive.files, name: json.dumps(document).encode()})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda index: index.update(schemaVersion=1), "index: schemaVersion is not 2"),
        (lambda index: index.update(manifest=[]), "index: no such property: manifest"),
        (lambda index: index["manifests"][0].update(size=7), "bytes, its descriptor says 7"),
        (lambda index: index["manifests"][0].update(size=True), "descriptor: size is True"),
        (lambda index: index["manifests"][0].update(mediaType="text"), "descriptor: mediaType is text"),
        (lambda index: index["manifests"][0]["platform"].update(os="windows"), "index: platform is"),
        (lambda index: index["manifests"][0]["annotations"].update(a=1), "index: annotations: 'a' is 1"),
    ],
)
def test_a_broken_index_is_found(change: Callable[[Any], None], problem: str, bundle: Path, tmp_path: Path) -> None:
    broken = changed(Archive.read(made(bundle, tmp_path)), "index.json", change)
    assert [found for found in problems_of(broken) if problem in found]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda config: config.update(architecture="x86_64"), "config: platform is linux/x86_64"),
        (lambda config: config.update(created="yesterday"), "config: created: 'yesterday' is no time"),
        (lambda config: config.update(created="2026-01-02T03:04:05"), "is no time with its zone"),
        (lambda config: config.update(entrypoint=[]), "config: no such property: entrypoint"),
        (lambda config: config["config"].update(Entrypoint=["a", 1]), "config: Entrypoint is no list of texts"),
        (lambda config: config["config"].update(Env=["PATH"]), "config: Env has an entry without ="),
        (lambda config: config["config"].update(User=1001), "config: User or WorkingDir is no text"),
        (lambda config: config["config"]["Labels"].update(a=None), "config: Labels: 'a' is None"),
        (lambda config: config["rootfs"].update(diff_ids=["sha256:1"]), "are not a digest for each layer"),
        (lambda config: config["history"].append({"created": config["created"]}), "history has not a step for each"),
    ],
)
def test_a_broken_configuration_is_found(
    change: Callable[[Any], None], problem: str, bundle: Path, tmp_path: Path
) -> None:
    config = json.loads(json.dumps(Archive.read(made(bundle, tmp_path)).config))
    change(config)
    assert [found for found in oci.problems_of_config(config, 1) if problem in found]


def test_a_blob_that_was_changed_is_found(bundle: Path, tmp_path: Path) -> None:
    archive = Archive.read(made(bundle, tmp_path))
    name = f"blobs/{archive.manifest['config']['digest'].replace(':', '/')}"
    broken = Archive({**archive.files, name: archive.files[name].replace(b"1001:0", b"1002:0")})
    assert [found for found in problems_of(broken) if found.endswith("is not the digest of its blob")]


def test_the_archive_and_the_directory_of_a_bundle_give_the_same_image(bundle: Path, tmp_path: Path) -> None:
    packed = tmp_path / "logcleaner-9.8.7-linux-x86_64.tar.zst"
    with (
        packed.open("wb") as file,
        zstandard.ZstdCompressor().stream_writer(file) as stream,
        tarfile.open(fileobj=stream, mode="w|") as archive,
    ):
        archive.add(bundle, "logcleaner")
    of_directory, of_archive = made(bundle, tmp_path / "a"), made(packed, tmp_path / "b")
    assert of_archive.read_bytes() == of_directory.read_bytes()


def test_of_a_wheel_the_bundle_is_made_first(bundle: Path, tmp_path: Path) -> None:
    packaging = tmp_path / "packaging"
    packaging.mkdir()
    shutil.copy(ROOT / "packaging/image", packaging)
    (packaging / "bundle").write_text(
        "import sys, tarfile, zstandard\n"
        "print(sys.argv[1:])\n"
        "out = open(sys.argv[2] + '/logcleaner-9.8.7-linux-x86_64.tar.zst', 'wb')\n"
        "with zstandard.ZstdCompressor().stream_writer(out) as s, tarfile.open(fileobj=s, mode='w|') as archive:\n"
        f"    archive.add({str(bundle)!r}, 'logcleaner')\n"
    )
    of_wheel = subprocess.run(
        [sys.executable, packaging / "image", "a.whl", tmp_path / "a", "--uv", "/bin/uv"],
        check=True, capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": COMMIT},
    )  # fmt: skip
    assert (
        "'--uv', '/bin/uv']" in of_wheel.stderr
    )  # what packaging/bundle tells is progress; stdout has the image alone
    assert Path(of_wheel.stdout.strip()).read_bytes() == made(bundle, tmp_path / "b").read_bytes()


def test_a_bundle_that_cannot_be_made_ends_it(tmp_path: Path) -> None:
    packaging = tmp_path / "packaging"
    packaging.mkdir()
    shutil.copy(ROOT / "packaging/image", packaging)
    (packaging / "bundle").write_text("import sys\nsys.exit('packaging/bundle: needs a compiler')\n")
    command = [sys.executable, packaging / "image", "a.whl", tmp_path / "out"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "packaging/bundle: needs a compiler\n"
    assert not (tmp_path / "out").exists()


def test_when_and_by_whom_the_bundle_was_made_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    first = made(bundle, tmp_path / "a").read_bytes()
    for path in (bundle, *bundle.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o202)
            os.utime(path, (1, 1))
    assert made(bundle, tmp_path / "b").read_bytes() == first
    assert made(bundle, tmp_path / "c", SOURCE_DATE_EPOCH="1700000001").read_bytes() != first


def test_root_owns_everything_and_everybody_may_read_it(bundle: Path, tmp_path: Path) -> None:
    entries = {entry.name: entry for entry in Archive.read(made(bundle, tmp_path)).entries}
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, int(COMMIT))}
    assert {name: oct(entry.mode) for name, entry in entries.items()} == {
        "logcleaner": "0o755",
        "logcleaner/lib": "0o755",
        "logcleaner/lib/libc.so": "0o777",
        "logcleaner/lib/libc.so.6": "0o444",
        "logcleaner/lib/logcleaner-9.8.7.dist-info": "0o755",
        f"logcleaner/{METADATA}": "0o444",
        "logcleaner/logcleaner": "0o555",
    }


def test_the_configuration_runs_logcleaner_as_another_user_than_root(bundle: Path, tmp_path: Path) -> None:
    archive = Archive.read(made(bundle, tmp_path))
    run = archive.config["config"]
    assert run["User"] == "1001:0"
    assert run["Entrypoint"] == ["/logcleaner/logcleaner", "--log-format", "auto"]
    assert run["Env"] == ["PATH=/logcleaner"]
    assert "Volumes" not in run  # a volume that nobody asked for would be made for each container
    assert archive.config["architecture"] == "amd64"
    assert run["Labels"] == archive.manifest["annotations"]
    assert run["Labels"]["org.opencontainers.image.version"] == "9.8.7"
    assert run["Labels"]["org.opencontainers.image.created"] == "2023-11-14T22:13:20Z"


def test_an_older_docker_finds_the_image_too(bundle: Path, tmp_path: Path) -> None:
    archive = Archive.read(made(bundle, tmp_path))
    (image,) = json.loads(archive.files["manifest.json"])
    assert image["RepoTags"] == ["logcleaner:9.8.7"]
    assert json.loads(archive.files[image["Config"]]) == archive.config
    assert [archive.files[layer] for layer in image["Layers"]] == [archive.blob(archive.manifest["layers"][0])]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda bundle: (bundle / "logcleaner").write_text("#!/bin/sh\n"), "is no program for x86-64 or aarch64"),
        (lambda bundle: (bundle / "logcleaner").unlink(), "is no program for x86-64 or aarch64"),
        (lambda bundle: (bundle / METADATA).unlink(), "this is no bundle"),
        (
            lambda bundle: (bundle / "lib/libm.so").symlink_to("/lib/libm.so"),
            "leads out of the bundle, to /lib/libm.so",
        ),
        (lambda bundle: (bundle / "lib/libm.so").symlink_to("../../libm.so"), "leads out of the bundle"),
        (lambda bundle: os.mkfifo(bundle / "lib/pipe"), "is no directory, file or symlink"),
    ],
)
def test_what_is_no_bundle_is_refused_in_one_line(
    spoil: Callable[[Path], object], told: str, bundle: Path, tmp_path: Path
) -> None:
    spoil(bundle)
    done = make(bundle, tmp_path / "out")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert told in line
    assert list((tmp_path / "out").glob("*")) == []
