"""``prove-erased`` on small log dirs: encodings, what it says of what it cannot read, exit statuses, its page."""

from __future__ import annotations

import base64
import errno
import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.prove_erased import places, proving
from cleaner.engine.prove_erased.places import FilePlace
from cleaner.engine.prove_erased.searching import KeyMatcher, search
from storage.codecs.compression import Compression
from storage.directory import DirectoryEntry, entries
from storage.records import ControlType, Record, encode_batch
from storage.scan.chunks import Chunk
from tests.batches import encode_control_batch
from tests.cleaner.cli.test_export import state_of
from tests.cleaner.cli.test_main import ROOT
from tests.partition_dirs import NOW_MS, PartitionDir, committed, keyed


def with_key(log_dir: Path, *keys: bytes, name: str = "orders-0") -> PartitionDir:
    records = [Record(place, NOW_MS, key, b"value") for place, key in enumerate(keys)]
    made = PartitionDir(log_dir, name).segment(0, encode_batch(records))
    committed(log_dir, made)
    return made


def run(log_dir: Path, *arguments: str) -> int:
    return main(["prove-erased", *arguments, "--log-dir", str(log_dir)])


def document(log_dir: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = run(log_dir, *arguments, "--json")
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("key", "given", "encoding"),
    [
        ("Jürgen".encode(), "Jürgen", "text"),
        (b"", "", "text"),
        (b"\x00\xff\x10", "00ff10", "hex"),
        (b"\x00\xff\x10", "0x00FF10", "hex"),
        (b"\xfb\xef", base64.b64encode(b"\xfb\xef").decode(), "base64"),
        (b"\xfb\xef\xff", "++__", "base64"),
        (b'"alice"', '"alice"', "json"),
        (b'{"id": 7, "name": "J\\u00fcrgen"}', '{"id":7,"name":"Jürgen"}', "json"),
        ('{"id":7,"name":"Jürgen"}'.encode(), '{ "id": 7, "name": "J\\u00fcrgen" }', "json"),
        (struct.pack(">q", -5), "-5", "long"),
        (struct.pack(">q", 2**63 - 1), str(2**63 - 1), "long"),
        (b"\x00" + struct.pack(">i", 4711) + b"\x0aalice", "alice", "avro-wire"),
        (b"\x00" + struct.pack(">i", 1) + b"\x80\x01", "64", "avro-wire"),
        (b"\x00" + struct.pack(">i", 1) + b"\x0464", "64", "avro-wire"),
    ],
)
def test_key_is_found_in_each_encoding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: bytes, given: str, encoding: str
) -> None:
    log_dir = tmp_path / "data"
    with_key(log_dir, b"another", key)
    status, found = document(log_dir, capsys, "--encoding", encoding, given)
    assert status == 10
    (file,) = [one for one in found["files"] if one["found"]]
    assert [record["offset"] for record in file["found"][0]["records"]] == [1]


@pytest.mark.parametrize(
    ("given", "encoding", "says"),
    [
        ("0g", "hex", "is not pairs of hexadecimal digits"),
        ("a", "base64", "is not base64"),
        ("alice", "json", 'in which a text has quotes, e.g. "alice"'),
        ("9223372036854775808", "long", "is not a whole number of 64 bits"),
        ("1.5", "long", "is not a whole number of 64 bits"),
    ],
)
def test_key_that_is_not_of_its_encoding_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str, encoding: str, says: str
) -> None:
    with_key(tmp_path / "data", b"a")
    assert run(tmp_path / "data", given, "--encoding", encoding) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


def test_keys_come_from_a_file_and_from_stdin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(tmp_path / "data", b"alice", b"bob", b"carol")
    (tmp_path / "keys").write_bytes(b"alice\r\n\nbob\n")
    _, found = document(tmp_path / "data", capsys, "carol", "carol", "--keys", str(tmp_path / "keys"))
    assert [(one["given"], one["values"]) for one in found["keys"]] == [("carol", 1), ("alice", 1), ("bob", 1)]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"bob\n")))
    _, found = document(tmp_path / "data", capsys, "--keys", "-")
    assert [one["given"] for one in found["keys"]] == ["bob"]


@pytest.mark.parametrize("keys", [(), ("--keys", "none"), ("--keys", "."), ("--keys", os.devnull)])
def test_without_a_key_it_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: tuple[str, ...]
) -> None:
    with_key(tmp_path / "data", b"a")
    assert run(tmp_path / "data", *keys) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_nothing_is_changed_and_no_lock_is_taken(tmp_path: Path) -> None:
    made = with_key(tmp_path / "data", b"alice")
    before = state_of(tmp_path / "data")
    assert run(tmp_path / "data", "alice", "-v") == 10
    assert state_of(tmp_path / "data") == before
    assert not (made.path.parent / ".lock").exists()


def test_page_fits_80_columns_and_speaks_of_each_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = tmp_path / "d"
    made = with_key(log_dir, b"alice")
    digest = hashlib.sha256(made.log(0).read_bytes()).hexdigest()
    assert run(log_dir, "alice", "-v", "--set", "retention.ms=1d") == 10
    page = capsys.readouterr().out
    words = [line for line in page.splitlines() if str(tmp_path) not in line and digest not in line]
    assert max(map(len, words)) <= 80
    assert "1 key is still here: 1 value and 0 tombstones in 1 file." in page
    assert "'alice': 1 value at offset 0" in page
    assert digest in page
    assert "Values and headers were not" in " ".join(page.split())
    assert "clean never closes an active segment" in page


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (("bob",), "The key is in no file of these log dirs."),
        (("bob", "carol"), "The keys are in no file of these log dirs."),
        (("alice", "bob"), "1 key is still here: 1 value and 0 tombstones in 1 file."),
        (("alice", "dave"), "2 keys are still here: 2 values and 0 tombstones in 1 file."),
    ],
)
def test_page_says_first_whether_a_key_is_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: tuple[str, ...], words: str
) -> None:
    with_key(tmp_path / "data", b"alice", b"dave")
    run(tmp_path / "data", *keys)
    assert f"\n{words}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "named"), [((), 20), (("-v",), 22)])
def test_page_names_twenty_files_that_hold_a_key_and_with_v_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], named: int
) -> None:
    for number in range(22):
        with_key(tmp_path / "d", b"alice", name=f"orders-{number}")
    assert run(tmp_path / "d", "alice", *options) == 10
    page = capsys.readouterr().out
    assert len(re.findall(r"^  \S+\.log$", page, re.MULTILINE)) == named
    assert ("... and 2 files more: -v tells all" in page) is (named == 20)


def test_markers_are_no_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = tmp_path / "data"
    producer = {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 0}
    marker = encode_control_batch(ControlType.COMMIT, offset=0, timestamp_ms=NOW_MS, **producer)
    made = PartitionDir(log_dir).segment(0, marker)
    committed(log_dir, made)
    status, _ = document(log_dir, capsys, "00000001", "--encoding", "hex")
    assert status == 0


def test_cut_file_is_told_and_status_is_4_unless_a_key_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = tmp_path / "data"
    made = PartitionDir(log_dir).segment(0, keyed(0, "a=1"), keyed(1, "b=2"))
    committed(log_dir, made)
    size = made.log(0).stat().st_size
    os.truncate(made.log(0), size - 5)
    status, found = document(log_dir, capsys, "b")
    (file,) = [one for one in found["files"] if one["undecoded"]]
    assert (status, file["result"], file["undecoded"][0]["position"]) == (4, "undecoded", size // 2)
    assert (found["is_erased"], found["is_complete"]) == (True, False)
    assert run(log_dir, "a") == 10
    assert "the file ends within a batch" in capsys.readouterr().out


@pytest.mark.parametrize("codec", list(Compression))
def test_damaged_batch_is_told_and_what_follows_is_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], codec: Compression
) -> None:
    log_dir = tmp_path / "data"
    batches = [keyed(place, f"key-{place}=1", compression=codec) for place in range(3)]
    made = PartitionDir(log_dir).segment(0, *batches)
    committed(log_dir, made)
    data = bytearray(made.log(0).read_bytes())
    data[len(batches[0]) + len(batches[1]) - 1] ^= 0xFF
    made.log(0).write_bytes(data)
    assert run(log_dir, "key-2") == 10
    capsys.readouterr()
    status, found = document(log_dir, capsys, "key-1")
    (file,) = [one for one in found["files"] if one["undecoded"]]
    assert (status, [one["position"] for one in file["undecoded"]]) == (4, [len(batches[0])])
    assert file["records"] == 2


def test_zeros_that_a_broker_preallocated_are_no_damage(tmp_path: Path) -> None:
    made = with_key(tmp_path / "data", b"alice")
    os.truncate(made.log(0), 1 << 22)
    assert run(tmp_path / "data", "bob") == 0


@pytest.mark.parametrize("what", ["symlink", "fifo", "text"])
def test_what_nobody_can_search_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    made = with_key(tmp_path / "data", b"alice")
    other = made.path / "00000000000000000009.log" if what != "text" else made.path / "notes.txt"
    if what == "symlink":
        other.symlink_to(made.log(0))
    elif what == "fifo":
        os.mkfifo(other)
    else:
        other.write_text("alice")
    assert run(tmp_path / "data", "bob") == 4
    page = capsys.readouterr().out
    assert "not every file could" in page
    assert other.name in page


def test_topic_narrows_also_to_a_topic_that_was_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_dir = tmp_path / "data"
    with_key(log_dir, b"alice")
    doomed = with_key(log_dir, b"alice", name="doomed-0").path
    doomed.rename(f"{doomed}.0123456789abcdef0123456789abcdef-delete")
    status, found = document(log_dir, capsys, "alice", "--topic", "doomed")
    assert status == 10
    assert {one["directory"] for one in found["files"]} == {"delete"}
    assert any("Only partitions that match doomed" in limit for limit in found["limits"])
    assert run(log_dir, "alice", "--topic", "domed") == 2
    assert "did you mean doomed?" in capsys.readouterr().err


def test_file_that_appears_meanwhile_is_searched_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_key(tmp_path / "data", b"alice")

    def search_late(place: FilePlace, *means: Any) -> Any:
        if place.path == made.log(0):
            made.segment(1, keyed(1, "bob=1"))
        return search(place, *means)

    monkeypatch.setattr(proving, "search", search_late)
    status, found = document(tmp_path / "data", capsys, "bob")
    assert status == 10
    assert found["is_complete"]


def test_file_that_is_gone_meanwhile_holds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_key(tmp_path / "data", b"alice")
    gone = made.path / "00000000000000000000.log.deleted"
    gone.write_bytes(made.log(0).read_bytes())

    def search_late(place: FilePlace, *means: Any) -> Any:
        gone.unlink(missing_ok=True)
        return search(place, *means)

    monkeypatch.setattr(proving, "search", search_late)
    _, found = document(tmp_path / "data", capsys, "alice")
    assert [one["path"] for one in found["files"] if one["found"]] == [str(made.log(0))]


def test_file_that_is_cut_while_it_is_read_is_told_and_what_was_found_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log_dir = tmp_path / "data"
    value = "v" * 1000
    batches = [keyed(place, f"key-{place}={value}") for place in range(3000)]
    made = PartitionDir(log_dir).segment(0, *batches)
    committed(log_dir, made)
    found_first = KeyMatcher.matches

    def cut(matcher: KeyMatcher, chunk: Chunk) -> Any:
        os.truncate(made.log(0), 1 << 20)
        return found_first(matcher, chunk)

    monkeypatch.setattr(KeyMatcher, "matches", cut)
    status, found = document(log_dir, capsys, "key-1", "key-2999")
    (file,) = [one for one in found["files"] if one["error"]]
    assert (status, [hits["key"] for hits in file["found"]], file["sha256"]) == (10, [0], None)
    assert "cut off while it was read" in file["error"]
    assert run(log_dir, "key-2999") == 4


def test_directory_that_lets_nobody_in_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_key(tmp_path / "data", b"alice")
    shut = tmp_path / "data" / "lost+found"
    shut.mkdir(mode=0o700)

    @contextmanager
    def entries_for_another_user(directory: Path) -> Iterator[Iterator[DirectoryEntry]]:
        if directory == shut:
            raise PermissionError(errno.EACCES, "Permission denied")
        with entries(directory) as listed:
            yield listed

    monkeypatch.setattr(places, "entries", entries_for_another_user)
    assert run(tmp_path / "data", "bob") == 1
    assert str(shut) in capsys.readouterr().out
    assert run(tmp_path / "data", "alice") == 10
    assert str(made.log(0)) in capsys.readouterr().out


def test_batch_that_a_broker_was_just_writing_is_no_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = with_key(tmp_path / "data", b"alice")
    more = keyed(1, "bob=1")
    with made.log(0).open("ab") as log:
        log.write(more[:30])
    found_first = KeyMatcher.matches

    def written_on(matcher: KeyMatcher, chunk: Chunk) -> Any:
        with made.log(0).open("ab") as log:
            log.write(more[30:])
        monkeypatch.setattr(KeyMatcher, "matches", found_first)
        return found_first(matcher, chunk)

    monkeypatch.setattr(KeyMatcher, "matches", written_on)
    status, found = document(tmp_path / "data", capsys, "bob")
    assert (status, found["is_complete"]) == (10, True)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_reader_that_goes_early_changes_no_status_and_leaves_no_traceback(tmp_path: Path, unbuffered: str) -> None:
    made = with_key(tmp_path / "data", *(b"%d" % place for place in range(2000)))
    command = [sys.executable, "-m", "cleaner", "prove-erased", *map(str, range(2000)), "-v", "--log-dir"]
    log_dir = str(made.path.parent)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*command, log_dir], cwd=ROOT, env=environment, **streams) as shown:
        assert shown.stdout is not None
        assert shown.stderr is not None
        shown.stdout.close()
        said = shown.stderr.read()
    assert shown.returncode == 10  # as they were found: the few lines go to the pipe when all is done
    assert b"Traceback" not in said


@pytest.mark.parametrize(
    "name",
    [
        "orders-0/00000000000000000000.index",
        "orders-0/00000000000000000000.timeindex",
        "orders-0/00000000000000000000.txnindex",
        "orders-0/00000000000000000000.snapshot",
        "orders-0/00000000000000000000.index.deleted",
        "orders-0/leader-epoch-checkpoint",
        ".logcleaner-journal",
        "replication-offset-checkpoint",
    ],
)
def test_batches_under_a_name_without_keys_are_undecoded(name: str, tmp_path: Path, capsys) -> None:
    made = with_key(tmp_path, b"secret")
    shutil.copy(made.log(0), tmp_path / name)
    assert run(tmp_path, "another", "--json") != 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [file["path"] for file in files if file["result"] == "undecoded"] == [str(tmp_path / name)]


def test_blanks_at_the_ends_of_a_key_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_key(tmp_path / "data", b"alice")
    (tmp_path / "keys").write_bytes(b"alice \n")
    assert run(tmp_path / "data", "--keys", str(tmp_path / "keys")) == 0
    assert "the key 'alice ' has blanks at an end" in capsys.readouterr().err
    assert run(tmp_path / "data", "alice") == 10
    assert "blanks" not in capsys.readouterr().err


def test_a_mark_at_the_beginning_of_a_file_of_keys_is_no_part_of_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Windows writes it into each file of UTF-8."""
    with_key(tmp_path / "data", b"alice")
    (tmp_path / "keys").write_bytes("\ufeffalice\r\nbob\r\n".encode())
    status, found = document(tmp_path / "data", capsys, "--keys", str(tmp_path / "keys"))
    assert status == 10
    assert [(one["given"], one["values"]) for one in found["keys"]] == [("alice", 1), ("bob", 0)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_keys_in_utf_16_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str) -> None:
    with_key(tmp_path / "data", b"alice")
    (tmp_path / "keys").write_bytes("alice\n".encode(encoding))
    assert run(tmp_path / "data", "--keys", str(tmp_path / "keys")) == 2
    assert "write it as UTF-8" in capsys.readouterr().err


LONG = "t" * 248 + "x"
CUT = f"{LONG[:213]}-0.0123456789abcdef0123456789abcdef-delete"
"""As Kafka names the directory: 255 characters in all."""


@pytest.mark.parametrize("glob", [LONG, f"{LONG}-0", "t*x", "t*", "t?*[a-z]"])
def test_a_topic_of_which_kafka_cut_the_name_when_it_was_deleted_is_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], glob: str
) -> None:
    with_key(tmp_path / "data", b"bob")
    with_key(tmp_path / "data", b"alice", name=f"{LONG}-0").path.rename(tmp_path / "data" / CUT)
    status, found = document(tmp_path / "data", capsys, "alice", "--topic", glob)
    assert status == 10
    assert {one["directory"] for one in found["files"]} == {"delete"}


@pytest.mark.parametrize("glob", ["u" + LONG[1:], "x*", "orders", "t" * 212])
def test_a_name_that_cannot_have_been_cut_so_is_not_searched_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], glob: str
) -> None:
    with_key(tmp_path / "data", b"bob")
    with_key(tmp_path / "data", b"alice", name=f"{LONG}-0").path.rename(tmp_path / "data" / CUT)
    assert run(tmp_path / "data", "alice", "--topic", glob) == (0 if glob == "orders" else 2)
