"""The image of the real bundle, run as a container runtime runs it, and the manifests of docs/kubernetes in it.

It is unpacked, and started by ``unshare``, which needs root: read-only root, user without name and home, no capability.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from cleaner import __version__
from cleaner.demo import make_demo
from storage.filesystem import FileSystem
from tests.bundles import make_bundle
from tests.docs.manifests import FOLDER
from tests.packaging.containers import Container, Volume
from tests.packaging.manifests import PATCH, Run, documents, runs
from tests.packaging.oci import Archive, problems_of
from tests.small_disks import fill, free_bytes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKED_BYTES_MAX = 50_000_000
WAIT_SECONDS = 60
SLACK_BYTES = 256 << 10
PAGE_BYTES = 4096
PROPERTIES = "node.id=1\nlog.dirs={log_dir}\nlog.retention.hours=168\n"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("image")
    make_bundle(scratch)
    (bundle,) = scratch.glob("*.tar.zst")
    command = [sys.executable, ROOT / "packaging/image", bundle, scratch]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def archive(image: Path) -> Archive:
    return Archive.read(image)


@pytest.fixture(scope="module")
def unpacked(archive: Archive, tmp_path_factory: pytest.TempPathFactory) -> Container:
    return Container.of(archive, tmp_path_factory.mktemp("root"))


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sample") / "demo"
    make_demo(path, FileSystem(), int(time.time() * 1000), 1)
    return path


@pytest.fixture
def demo(sample: Path, tmp_path: Path) -> Path:
    """A volume with a log directory, as the image's user owns it."""
    return a_volume(sample, tmp_path / "volume", "data", 1001, 0)


def a_volume(sample: Path, directory: Path, log_dir: str, uid: int, gid: int) -> Path:
    """Copy a log directory below a directory that is as Kubernetes leaves the root of a volume with this fsGroup."""
    as_root_of_a_volume(directory, gid)
    subprocess.run(["cp", "-a", sample, directory / log_dir], check=True)
    for path in (directory / log_dir, *(directory / log_dir).rglob("*")):
        os.chown(path, uid, gid)
    return directory


def as_root_of_a_volume(directory: Path, group: int) -> Path:
    directory.mkdir(exist_ok=True)
    os.chown(directory, 0, group)
    directory.chmod(0o2775)
    return directory


@contextmanager
def a_full_volume(sample: Path, directory: Path, log_dir: str, uid: int, gid: int) -> Iterator[Path]:
    """Copy a log directory onto a file system that then has no free byte."""
    taken_bytes = sum(-(-path.stat().st_size // PAGE_BYTES) * PAGE_BYTES for path in sample.rglob("*"))
    directory.mkdir()
    size = f"size={taken_bytes + SLACK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", directory], check=True)
    try:
        a_volume(sample, directory, log_dir, uid, gid)
        fill(directory)
        assert free_bytes(directory) == 0
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)


def content_of(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(root)): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in root.rglob("*")}


def test_the_image_keeps_the_rules_of_oci_and_is_small(image: Path, archive: Archive) -> None:
    assert problems_of(archive) == []
    assert image.name == f"logcleaner-{__version__}-oci.tar"
    assert archive.config["config"]["Labels"]["org.opencontainers.image.version"] == __version__
    assert image.stat().st_size < PACKED_BYTES_MAX
    assert {entry.name.partition("/")[0] for entry in archive.entries} == {"logcleaner"}


def test_it_looks_compacts_and_restores_on_a_volume_and_writes_nowhere_else(unpacked: Container, demo: Path) -> None:
    before = content_of(unpacked.root)
    container = unpacked.having(Volume(demo, "/volume"))
    assert container.ok("--version") == f"logcleaner {__version__}\n"
    at = content_of(demo)
    dry = container.ok("clean", "--dry-run", "--log-dir", "/volume/data")
    assert re.search(r"^orders .* partitions", dry, re.MULTILINE)
    assert content_of(demo) == at
    cleaned = container.ok("clean", "--log-dir", "/volume/data")
    assert re.search(r"^Deleted +\d+ segments", cleaned, re.MULTILINE)
    assert re.search(r"^Compacted +4 partitions", cleaned, re.MULTILINE)
    assert "Nothing to do" in container.ok("clean", "--log-dir", "/volume/data")
    assert "clicks-0" in container.ok("restore", "--log-dir", "/volume/data")
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (demo / "data").rglob("*")} == {(1001, 0)}
    assert {name: at for name, at in content_of(unpacked.root).items() if not name.startswith("volume")} == before


def test_it_frees_a_volume_without_a_free_byte(unpacked: Container, sample: Path, tmp_path: Path) -> None:
    with a_full_volume(sample, tmp_path / "full", "data", 1001, 0) as volume:
        container = unpacked.having(Volume(volume, "/full"))
        container.ok("free", "--target", "2MiB", "--log-dir", "/full/data")
        assert free_bytes(volume) >= 2 << 20


@pytest.mark.parametrize(
    ("uid", "gid", "groups", "environment"),
    [(1_000_740_000, 0, (1_000_740_000,), ("HOME=/",)), (65_534, 65_534, (), ("HOME=/nonexistent",))],
    ids=["openshift", "nobody"],
)
def test_any_user_will_do(
    uid: int,
    gid: int,
    groups: tuple[int, ...],
    environment: tuple[str, ...],
    unpacked: Container,
    sample: Path,
    tmp_path: Path,
) -> None:
    volume = a_volume(sample, tmp_path / "volume", "data", uid, gid)
    container = replace(unpacked, uid=uid, gid=gid, groups=groups, environment=environment)
    container = container.having(Volume(volume, "/any"))
    assert re.search(r"^Compacted +4 partitions", container.ok("clean", "--log-dir", "/any/data"), re.MULTILINE)


def test_another_user_than_the_owner_changes_nothing(unpacked: Container, demo: Path) -> None:
    at = content_of(demo)
    container = replace(unpacked, uid=1002).having(Volume(demo, "/foreign"))
    done = container("clean", "--log-dir", "/foreign/data")
    assert done.returncode == 1
    assert "belongs to uid 1001 gid 0" in done.stderr
    assert content_of(demo) == at


def test_the_lock_of_a_broker_in_another_container_holds(unpacked: Container, demo: Path) -> None:
    """The JVM takes a POSIX record lock, as this process does, which lives in other namespaces than the container."""
    at = content_of(demo)
    container = unpacked.having(Volume(demo, "/locked"))
    with (demo / "data/.lock").open("w") as lock:
        os.chown(lock.fileno(), 1001, 0)
        fcntl.lockf(lock, fcntl.LOCK_EX)
        done = container("clean", "--log-dir", "/locked/data")
    assert done.returncode == 3
    assert "or a broker, perhaps in another container" in done.stderr
    (demo / "data/.lock").unlink()
    assert content_of(demo) | {"data": at["data"]} == at


def test_events_are_json_unless_stderr_is_a_terminal(unpacked: Container, demo: Path) -> None:
    (demo / "data").chmod(0o777)
    container = unpacked.having(Volume(demo, "/logged"))
    command = (*container.config["Entrypoint"], "clean", "--dry-run", "--log-dir", "/logged/data")
    (line,) = container.run(*command).stderr.splitlines()
    assert json.loads(line)["event"] == "world_writable"
    controller, terminal = pty.openpty()
    container.run(*command, stderr=terminal)
    os.close(terminal)
    shown = os.read(controller, 1 << 16).decode()
    os.close(controller)
    assert "world_writable" in shown
    assert '{"' not in shown


def test_the_daemon_is_process_1_and_compacts_and_ends_when_told(
    unpacked: Container, demo: Path, tmp_path: Path
) -> None:
    (demo / "logcleaner.toml").write_text('log.dirs = ["/served/data"]\nlog.cleaner.backoff.ms = 200\n')
    log = tmp_path / "daemon.log"
    container = unpacked.having(Volume(demo, "/served"))
    with container.started(log, "run", "-v", "--config", "/served/logcleaner.toml") as started:
        wait_until(lambda: log.read_text().count('"segments_compacted"') >= 4, log)
        os.kill(started.pid, signal.SIGTERM)
        assert started.process.wait(WAIT_SECONDS) == 0, log.read_text()
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events[0] == "daemon_started"
    assert events[-1] == "daemon_stopped"


def wait_until(is_so: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def in_a_pod(unpacked: Container, run: Run, **volumes: Path) -> Container:
    """Return the container as the manifest asks for it; ``volumes`` are the claims and ConfigMaps, by their name."""
    mounts = {mount["name"]: mount for mount in run.container["volumeMounts"]}
    assert set(mounts) == set(volumes)
    container = replace(
        unpacked,
        uid=run.of("runAsUser"),
        gid=run.of("runAsGroup"),
        groups=(run.pod["securityContext"]["fsGroup"],),
        environment=("HOME=/", "POD_NAME=copies-1-abc"),
    )
    return container.having(
        *(
            Volume(source, mounts[name]["mountPath"], bool(mounts[name].get("readOnly")))
            for name, source in volumes.items()
        )
    )


def arguments_of(run: Run) -> list[str]:
    """Return the arguments, with the variable in them as Kubernetes sets it."""
    return [argument.replace("$(POD_NAME)", "copies-1-abc") for argument in run.arguments]


def the_run(manifest: str) -> Run:
    (found,) = (run for run in runs() if run.manifest == manifest)
    return found


def a_config_map(directory: Path, name: str, text: str) -> Path:
    """Make a volume with one file, as the kubelet makes it: a symlink to where the newest state of the file lies."""
    state = directory / "..2026_01_02"
    state.mkdir(parents=True)
    (state / name).write_text(text)
    (directory / "..data").symlink_to(state.name)
    (directory / name).symlink_to(f"..data/{name}")
    return directory


@pytest.mark.parametrize(
    ("manifest", "log_dir", "file"),
    [("rescue.yaml", "data", "server.properties"), ("strimzi-rescue.yaml", "kafka-log0", "server.config")],
)
def test_a_rescue_looks_and_then_frees(
    manifest: str, log_dir: str, file: str, unpacked: Container, sample: Path, tmp_path: Path
) -> None:
    run = the_run(manifest)
    named = next(argument for argument in run.arguments if argument.startswith("--log-dir=")).partition("=")[2]
    assert Path(named).name == log_dir
    properties = a_config_map(tmp_path / "properties", file, PROPERTIES.format(log_dir=named))
    with a_full_volume(sample, tmp_path / "full", log_dir, run.of("runAsUser"), run.of("runAsGroup")) as volume:
        (data,) = {mount["name"] for mount in run.container["volumeMounts"]} - {"properties"}
        container = in_a_pod(unpacked, run, **{data: volume, "properties": properties})
        at = content_of(volume)
        looked = container(*arguments_of(run))
        assert looked.returncode == 0, looked.stdout + looked.stderr
        assert content_of(volume) == at
        freed = container(*(argument.replace("--dry-run", "--yes") for argument in arguments_of(run)))
        assert freed.returncode == 0, freed.stdout + freed.stderr
        size_bytes = os.statvfs(volume).f_blocks * os.statvfs(volume).f_frsize
        assert free_bytes(volume) >= size_bytes / 10


def test_a_broker_is_observed_and_its_probes_answer(unpacked: Container, sample: Path, tmp_path: Path) -> None:
    run = the_run(PATCH)
    (config_map,) = documents("observe-config.yaml")
    ((name, text),) = config_map["data"].items()
    volume = a_volume(sample, tmp_path / "volume", "data", run.of("runAsUser"), run.of("runAsGroup"))
    at, log = content_of(volume), tmp_path / "observer.log"
    config = a_config_map(tmp_path / "config", name, text)
    container = in_a_pod(unpacked, run, data=volume, logcleaner=config)
    port = run.container["ports"][0]["containerPort"]
    with container.started(log, *arguments_of(run)) as started:
        for probe in ("startup", "liveness", "readiness"):
            path = run.container[f"{probe}Probe"]["httpGet"]["path"]
            wait_until(lambda: started.get(f"http://127.0.0.1:{port}{path}")[0] == 200, log)  # noqa: B023 - called here
        status, metrics = started.get(f"http://127.0.0.1:{port}/metrics")
        os.kill(started.pid, signal.SIGTERM)
        assert started.process.wait(WAIT_SECONDS) == 0
    assert status == 200
    assert "\nlogcleaner_observing 1.0\n" in metrics
    assert "\nlogcleaner_ready 1.0\n" in metrics
    assert re.search(
        r'^logcleaner_reclaimable_bytes\{log_dir="/var/lib/kafka/data".*RETENTION_TIME', metrics, re.MULTILINE
    )
    assert content_of(volume) == at
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events == ["metrics_exposed", "daemon_started", "daemon_stopped"]


def test_a_cold_copy_is_copied(unpacked: Container, sample: Path, tmp_path: Path) -> None:
    run = the_run("cold-copies.yaml")
    uid, gid = run.of("runAsUser"), run.of("runAsGroup")
    backup = a_volume(sample, tmp_path / "backup", "data", uid, gid)
    copies = as_root_of_a_volume(tmp_path / "copies", gid)
    properties = a_config_map(tmp_path / "properties", "server.properties", PROPERTIES.format(log_dir="/var/lib/kafka"))
    at = content_of(backup)
    done = in_a_pod(unpacked, run, backup=backup, copies=copies, properties=properties)(*arguments_of(run))
    assert done.returncode == 0, done.stdout + done.stderr
    assert content_of(backup) == at
    assert (copies / "copies-1-abc/logcleaner-manifest.json").exists()
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (copies / "copies-1-abc").rglob("*")} == {(uid, gid)}


def test_every_manifest_is_run_here() -> None:
    with_a_container = {path.name for path in FOLDER.iterdir() if "containers:" in path.read_text()}
    assert with_a_container == {run.manifest for run in runs()}
    assert with_a_container == {"rescue.yaml", "strimzi-rescue.yaml", PATCH, "cold-copies.yaml"}
    assert all(list(yaml.safe_load_all((FOLDER / name).read_text())) for name in with_a_container)
