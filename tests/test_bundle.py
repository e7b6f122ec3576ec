"""The bundle, made of the wheel, in systems that have nothing that it could use.

An empty chroot, one with a musl userland, and a Debian that debootstrap fetches (some minutes):
``LOGCLEANER_DEBOOTSTRAP=bullseye pytest tests/test_bundle.py``. A chroot needs root.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from cleaner import __version__
from storage.codecs.compression import Compression
from tests.bundles import INSTALLED, ROOT, USER, Userland, empty_userland, make_bundle
from tests.debian_packages import program, unpacked
from tests.partition_dirs import PartitionDir, committed, keyed, latest
from tests.small_disks import a_small_disk, fill, free_bytes

pytestmark = pytest.mark.slow

FRESH = os.environ.get("LOGCLEANER_DEBOOTSTRAP")
MIRROR = "http://deb.debian.org/debian"
CHECK = (ROOT / "packaging/bundle_check.py").read_text()
UNPACKED_BYTES_MAX = 125_000_000
"""A quarter of it is OpenBLAS, which the wheel of numpy carries; what it holds must not be removed."""
CODECS = {f"{codec.name.lower()}-0": codec for codec in Compression}
DAEMON = """
clock.jump.max = "100000d"
log.cleaner.backoff.ms = 200
[topics."*"]
cleanup.policy = "compact"
min.cleanable.dirty.ratio = 0.1
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bundle(tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module", params=["empty", "musl", "debian"])
def userland(bundle: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Userland:
    root = tmp_path_factory.mktemp(request.param)
    if request.param == "debian":
        fresh_debian(root)
    made = empty_userland(root, bundle)
    if request.param == "musl":
        add_musl(root)
    return made


def add_musl(root: Path) -> None:
    """Add what Alpine has: a static busybox as shell, and the C library musl under its own names."""
    (root / "bin").mkdir()
    shutil.copy(unpacked("busybox-static") / "bin/busybox", root / "bin/sh")
    (library,) = unpacked("musl").rglob("libc.so")
    (root / "lib").mkdir()
    shutil.copy(library, root / "lib" / f"ld-musl-{os.uname().machine}.so.1")
    shutil.copy(library, root / "lib/libc.so.6")  # as a host's may be: another C library under that name


def fresh_debian(root: Path) -> None:
    if not FRESH:
        pytest.skip("NOT RUN: takes minutes: LOGCLEANER_DEBOOTSTRAP=bullseye pytest tests/test_bundle.py")
    debootstrap = program("debootstrap", "debootstrap", below="usr/sbin")
    environment = {**os.environ, "DEBOOTSTRAP_DIR": str(debootstrap.parents[1] / "share/debootstrap")}
    command = (debootstrap, "--variant=minbase", FRESH, root, MIRROR)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that a command said when it failed."""
    (line,) = done.stderr.splitlines()
    assert done.returncode != 0
    return line


def test_it_stands_alone(userland: Userland) -> None:
    """No file of the host is mapped, the codecs find their libraries, ``sys.executable`` starts the bundle again."""
    done = userland.run(f"/{INSTALLED}/bin/python3", "-c", CHECK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"logcleaner of /{INSTALLED}: Python")


def test_it_makes_and_cleans_the_demo(userland: Userland) -> None:
    assert userland.ok("--version") == f"logcleaner {__version__}\n"
    userland.ok("demo", "/srv/demo")
    planned = json.loads(userland.ok("clean", "--dry-run", "--json", "--log-dir", "/srv/demo"))
    assert planned["totals"]
    cleaned = userland.ok("clean", "--yes", "--log-dir", "/srv/demo")
    assert re.search(r"^Deleted +\d+ segments", cleaned, re.MULTILINE)
    assert re.search(r"^Compacted +4 partitions", cleaned, re.MULTILINE)
    assert "clicks-0" in userland.ok("restore", "--log-dir", "/srv/demo")


def test_the_daemon_compacts_a_partition_of_each_codec(userland: Userland, tmp_path: Path) -> None:
    log_dir = a_log_dir_of_each_codec(userland.root / "srv/codecs")
    before = {name: (latest(log_dir / name), size_bytes(log_dir / name)) for name in CODECS}
    (userland.root / "srv/logcleaner.toml").write_text(f'log.dirs = ["/srv/codecs"]\n{DAEMON}')
    userland.own("srv")
    log = tmp_path / "daemon.log"
    process = userland.start(log, "run", "-v", "--log-format", "json", "--config", "/srv/logcleaner.toml")
    try:
        compacted = set(compacted_until(len(CODECS), process, log))
        names = {Path(f"/proc/{pid}/comm").read_text() for pid in (process.pid, *children_of(process.pid))}
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0, log.read_text()
    assert compacted == set(CODECS)
    assert names == {"logcleaner\n"}
    for name, (content, bytes_before) in before.items():
        assert latest(log_dir / name) == content
        assert size_bytes(log_dir / name) < bytes_before / 2


def a_log_dir_of_each_codec(log_dir: Path) -> Path:
    """Make 4 segments a partition, of 50 keys that each of them updates."""
    made = []
    for name, codec in CODECS.items():
        drawn = PartitionDir(log_dir, name)
        for base in range(0, 400, 100):
            pairs = [f"key-{n % 50}={base + n} " + "value " * 20 for n in range(100)]
            drawn.segment(base, keyed(base, *pairs, compression=codec))
        made.append(drawn)
    return committed(log_dir, *made)


def size_bytes(partition: Path) -> int:
    return sum(path.stat().st_size for path in partition.glob("*.log"))


def compacted_until(count: int, process: subprocess.Popen[bytes], log: Path) -> Iterator[str]:
    """Yield the partitions that the daemon says it compacted, until there are so many."""
    told: set[str] = set()
    deadline = time.monotonic() + 120
    while len(told) < count:
        assert time.monotonic() < deadline, log.read_text()
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
        events = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        told |= {f"{event['topic']}-0" for event in events if event["event"] == "segments_compacted"}
    yield from told


def children_of(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def test_it_frees_a_full_disk(userland: Userland) -> None:
    with a_small_disk("tmpfs", userland.root) as disk:
        drawn = PartitionDir(disk / "data", "clicks-0")
        for base in range(30):
            drawn.segment(base, keyed(base, "x=" + "v" * 100_000, timestamp_ms=base))
        committed(disk / "data", drawn)
        (userland.root / "srv/free.toml").write_text('[topics.clicks]\ncleanup.policy = "delete"\nretention.ms = 1\n')
        userland.own("tmpfs")
        fill(disk)
        assert free_bytes(disk) == 0
        userland.ok("free", "--target", "1MiB", "--log-dir", "/tmpfs/data", "--config", "/srv/free.toml", "--yes")
        assert free_bytes(disk) >= 1 << 20


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "--log-dir", "/srv/plain"),
        ("clean", "--yes", "--engine", "spark", "--log-dir", "/srv/plain"),
        ("export", "orders-0", "--to", "parquet", "/srv/o.parquet", "--log-dir", "/srv/plain"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_what_needs_spark_or_pyarrow_says_what_to_do(userland: Userland, arguments: tuple[str, ...]) -> None:
    log_dir = userland.root / "srv/plain"
    if not log_dir.exists():
        committed(log_dir, PartitionDir(log_dir, "orders-0").segment(0, keyed(0, "a=1")))
        userland.own("srv")
    said = one_line(userland(*arguments))
    assert "not in the bundle" in said
    assert "pip install '.[" in said


def test_what_the_host_preloads_and_python_variables_do_nothing(userland: Userland) -> None:
    done = userland(
        "--version", LD_PRELOAD="/lib/libc.so.6", LD_LIBRARY_PATH="/lib", PYTHONHOME="/nowhere", PYTHONPATH="/srv"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"logcleaner {__version__}\n", "")


def test_it_starts_by_a_symlink_from_anywhere_once_moved(bundle: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved here" / "to"
    moved.parent.mkdir()
    shutil.copytree(bundle, moved, symlinks=True, copy_function=os.link)
    (tmp_path / "first").symlink_to(Path("moved here/to/logcleaner"))
    (tmp_path / "second").symlink_to(tmp_path / "first")
    for program_, here in (("../to/logcleaner", moved), ("./first", tmp_path), (tmp_path / "second", Path("/"))):
        told = subprocess.run([program_, "--version"], check=True, capture_output=True, text=True, cwd=here, env={})
        assert told.stdout == f"logcleaner {__version__}\n"
    unit = subprocess.run(
        [bundle / "logcleaner", "systemd", "install", "--root", tmp_path / "root", "--prefix", "/usr"],
        check=True, capture_output=True, text=True, env={},
    )  # fmt: skip
    service = (tmp_path / "root/usr/lib/systemd/system/logcleaner.service").read_text()
    assert f"ExecStart={bundle}/logcleaner run " in service, unit.stdout


def test_what_cannot_be_started_is_one_line(bundle: Path, tmp_path: Path) -> None:
    shutil.copytree(bundle, tmp_path / "a:b", copy_function=os.link)
    shutil.copytree(bundle, tmp_path / "incomplete", copy_function=os.link, ignore=shutil.ignore_patterns("libexec"))
    said = {name: run_there(tmp_path / name / "logcleaner") for name in ("a:b", "incomplete")}
    assert one_line(said["a:b"]) == f"logcleaner: {tmp_path}/a:b: no : ; or $ may be in the path; move the directory"
    loader = tmp_path / "incomplete/libexec/logcleaner"
    assert (
        one_line(said["incomplete"]) == f"logcleaner: {loader}: is missing; the bundle is incomplete: unpack it again"
    )
    assert {done.returncode for done in said.values()} == {126}


def run_there(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})


def test_on_a_noexec_mount_it_says_why(bundle: Path, tmp_path: Path) -> None:
    with a_small_disk("tmpfs", tmp_path) as disk:
        subprocess.run(["mount", "-o", "remount,noexec", disk], check=True)
        for name in ("logcleaner", "start.sh"):
            shutil.copy(bundle / name, disk)
        with pytest.raises(PermissionError):
            run_there(disk / "logcleaner", "--version")
        done = run_there("sh", disk / "start.sh", "--version")
        assert done.returncode == 126
        assert "its file system is mounted noexec; copy the directory" in one_line(done)
    assert run_there("sh", bundle / "start.sh", "--version").stdout == f"logcleaner {__version__}\n"


def test_without_a_c_compiler_its_maker_says_so(tmp_path: Path) -> None:
    command = (sys._base_executable, "-I", ROOT / "packaging/bundle", tmp_path / "no.whl", tmp_path)
    done = subprocess.run(command, check=False, capture_output=True, text=True, env={"PATH": str(tmp_path)})
    assert one_line(done).startswith(
        "packaging/bundle: needs a C compiler for the launcher: install gcc, set CC, or pip"
    )


def test_it_is_small(bundle: Path) -> None:
    assert sum(path.lstat().st_size for path in bundle.rglob("*")) <= UNPACKED_BYTES_MAX


def test_the_archive_has_one_owner_one_time_and_no_permission_to_write(bundle: Path) -> None:
    (archive,) = bundle.parent.glob("logcleaner-*.tar.zst")
    assert archive.name == f"logcleaner-{__version__}-linux-{os.uname().machine}.tar.zst"
    with (
        archive.open("rb") as file,
        zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file) as plain,
        tarfile.open(fileobj=plain, mode="r|") as entries,
    ):
        found = [(entry.name, entry) for entry in entries]
    assert len(found) > 1000
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for _, entry in found} == {(0, 0, "root", 1580601600)}
    assert [name for name, entry in found if entry.isfile() and entry.mode & 0o222] == []
    assert {name.partition("/")[0] for name, _ in found} == {"logcleaner"}
    assert found[1][0] == "logcleaner/logcleaner"  # tar writes it whole, even if the disk is full soon after


def test_nothing_was_written_into_it(bundle: Path, userland: Userland) -> None:
    """The tests before this one ran it, as a user and as root, who may write everywhere."""
    installed = userland.root / INSTALLED
    files = {path.relative_to(installed) for path in installed.rglob("*")}
    assert files == {path.relative_to(bundle) for path in bundle.rglob("*")}
    assert [path for path in bundle.rglob("*") if path.is_file() and path.stat().st_mtime != 1580601600] == []
    assert USER not in {path.lstat().st_uid for path in installed.rglob("*")}
