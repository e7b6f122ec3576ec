"""``erase --output`` as a user runs it: a copy without the records, its certificate, and the original as it was."""

from __future__ import annotations

import json
import os
import shutil
import signal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from cleaner.engine.prove_erased import proving
from storage.names import HIGH_WATERMARK_CHECKPOINT, INCOMPLETE_FILE, MANIFEST_FILE
from tests.cleaner.cli.test_erase import KEY, contents, keys
from tests.small_disks import a_small_disk


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def run(log_dir: Path, copy: Path, *words: str, topic: str = "orders", key: str = KEY) -> int:
    return main(["erase", "--topic", topic, key, "--output", str(copy), *words, "--log-dir", str(log_dir)])


def read(certificate: Path) -> Any:
    return json.loads(certificate.read_bytes())


def test_the_copy_lacks_the_records_and_the_original_keeps_them(log_dir, copy, capsys) -> None:
    before = contents(log_dir)
    assert run(log_dir, copy, "--tombstones") == 0
    told = capsys.readouterr()
    assert f"{copy}: the copy is complete, with its manifest" in " ".join(told.out.split())
    assert KEY not in told.out + told.err
    assert KEY.encode() not in keys(copy, values_only=False)
    assert contents(log_dir) == before
    assert main(["prove-erased", KEY, "--topic", "orders", "--log-dir", str(copy)]) == 0
    assert main(["verify", str(copy)]) == 0
    capsys.readouterr()
    assert main(["history", "--log-dir", str(copy)]) == 0
    assert "of some keys" in capsys.readouterr().out
    assert KEY not in (copy / ".logcleaner-journal").read_text() + (copy / MANIFEST_FILE).read_text()
    assert json.loads((copy / MANIFEST_FILE).read_text())["original"] == str(log_dir)


def test_the_document_names_the_copy(log_dir, copy, capsys) -> None:
    assert run(log_dir, copy, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["output"] == str(copy)
    assert all(segment["done"] for part in document["partitions"] for segment in part["segments"])
    assert {part["log_dir"] for part in document["partitions"]} == {str(log_dir)}


def test_a_dry_run_writes_nothing_and_says_the_same(log_dir, copy, capsys) -> None:
    before = contents(log_dir)
    assert run(log_dir, copy, "-n", "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert not copy.exists()
    assert contents(log_dir) == before
    assert run(log_dir, copy, "--json") == 0
    done = json.loads(capsys.readouterr().out)
    for one in (planned, done):
        assert [one.pop(name) for name in ("dry_run", "output", "time_ms")]
        for segment in (segment for part in one["partitions"] for segment in part["segments"]):
            segment.pop("done")
    assert planned == done
    assert run(log_dir, copy, "-n") == 2
    assert "holds a finished log dir already" in capsys.readouterr().err


def test_records_above_the_high_watermark_give_exit_status_10(log_dir, copy, capsys) -> None:
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_text("0\n3\norders 0 100\norders 1 12000\norders 2 12000\n")
    assert run(log_dir, copy, "-n") == 10
    assert run(log_dir, copy) == 10
    assert "at or above the high watermark" in capsys.readouterr().out
    assert (copy / MANIFEST_FILE).exists()


def test_a_backup_without_checkpoints_is_refused_before_a_byte_is_written(log_dir, copy, capsys) -> None:
    (log_dir / HIGH_WATERMARK_CHECKPOINT).unlink()
    shutil.rmtree(log_dir / "__cluster_metadata-0")
    assert run(log_dir, copy, "--certificate", str(copy.with_name("cert"))) == 5
    told = capsys.readouterr().err
    assert "--assume-committed" in told
    assert f"{copy}: no copy was written" in told
    assert not copy.exists()
    assert not copy.with_name("cert").exists()
    assert run(log_dir, copy, "--assume-committed") == 5
    assert "add --yes" in capsys.readouterr().err
    assert run(log_dir, copy, "--assume-committed", "--yes") == 0
    assert KEY.encode() not in keys(copy)


def test_the_certificate_has_the_files_of_the_copy_and_names_the_original_as_a_holder(log_dir, copy, tmp_path) -> None:
    certificate = tmp_path / "cert.json"
    assert run(log_dir, copy, "--certificate", str(certificate), topic="orders-0") == 0
    found = read(certificate)
    assert (found["kind"], found["original"]) == ("copy", str(log_dir))
    assert [one["path"] for one in found["log_dirs"]] == [str(copy)]
    (partition,) = found["partitions"]
    assert (partition["outcome"], partition["log_dir"]) == ("ERASED", str(copy))
    assert any(file["before"] for file in partition["files"])
    for file in partition["files"]:
        assert file["after"]["sha256"] == sha256((copy / file["path"]).read_bytes()).hexdigest()
        assert (file["before"] or file["after"])["sha256"] == sha256((log_dir / file["path"]).read_bytes()).hexdigest()
    holding = {holder["path"] for holder in found["holders"] if holder["values"]}
    assert holding
    assert all(path.startswith(str(log_dir)) for path in holding)
    assert KEY not in certificate.read_text()
    assert main(["erase", "--check", str(certificate)]) == 0


def test_a_copy_that_was_finished_before_its_certificate_is_certified_by_the_same_command(log_dir, copy) -> None:
    certificate = copy.with_name("cert.json")
    words = ("--certificate", str(certificate))
    assert run(log_dir, copy, *words) == 0
    first, before = read(certificate), contents(copy)
    certificate.unlink()  # as if the run had died between copy and certificate
    assert run(log_dir, copy, *words) == 0
    again = read(certificate)
    assert contents(copy) == before
    assert [again[name] for name in ("request", "kind", "original")] == [
        first[name] for name in ("request", "kind", "original")
    ]
    for one, other in zip(first["partitions"], again["partitions"], strict=True):
        assert other["records"] == one["records"]
        assert [(f["before"], f["after"]) for f in other["files"]] == [(f["before"], f["after"]) for f in one["files"]]
    certificate.unlink()
    assert run(log_dir, copy, *words, key="order-0-0004") == 2  # other keys: that copy holds them
    assert run(log_dir, copy) == 2


def test_pending_names_the_original_of_a_copy_until_a_later_certificate(log_dir, copy, tmp_path, capsys) -> None:
    one, two = tmp_path / "1.json", tmp_path / "2.json"
    assert run(log_dir, copy, "--certificate", str(one)) == 0
    capsys.readouterr()
    assert main(["erase", "--pending", str(one)]) == 10
    told = capsys.readouterr().out
    assert "this is the original" in told
    assert "0 replicas erased" in told
    words = ("--yes", "--delete-delay", "0", "--certificate", str(two), "--secret", f"{one}.secret")
    assert main(["erase", "--topic", "orders", KEY, *words, "--log-dir", str(log_dir)]) == 0
    capsys.readouterr()
    assert main(["erase", "--pending", str(one), str(two), "--json"]) in (0, 10)
    found = json.loads(capsys.readouterr().out)
    assert found["holders"] == []
    assert {replica["state"] for replica in found["replicas"]} >= {"ERASED"}


def test_an_incomplete_copy_is_told(log_dir, copy, capsys) -> None:
    copy.mkdir()
    (copy / INCOMPLETE_FILE).write_text("")
    assert run(log_dir, copy) == 2
    assert "holds an incomplete log dir" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--delete-delay", "0"), "does not go with --delete-delay"),
        (("--certificate", "{copy}/cert"), "is no directory"),
        (("--certificate", "{data}/cert"), "lies in the log dir"),
        (("--check", "cert"), "erases nothing"),
    ],
)
def test_wrong_usage_is_told(log_dir, copy, capsys, words, told) -> None:
    assert run(log_dir, copy, *(word.format(copy=copy, data=log_dir) for word in words)) == 2
    assert told in capsys.readouterr().err
    assert not copy.exists()


def test_two_log_dirs_are_refused(log_dir, copy, capsys) -> None:
    second = shutil.copytree(log_dir, log_dir.with_name("second"))
    assert run(log_dir, copy, "--log-dir", str(second)) == 2
    assert "needs exactly one log dir" in capsys.readouterr().err
    assert run(log_dir, log_dir / "copy") == 2
    assert "lies in the log dir" in capsys.readouterr().err


@pytest.mark.parametrize("in_place", [True, False])
def test_a_certificate_that_finds_no_space_is_written_by_the_same_command(
    log_dir, copy, tmp_path, capsys, in_place
) -> None:
    with a_small_disk("tmpfs", tmp_path, 32 << 10) as disk:
        certificate = disk / "cert.json"
        (disk / "filler").write_bytes(b"x" * (24 << 10))
        words = ["erase", "--topic", "orders-0", KEY, "--certificate", str(certificate), "--log-dir", str(log_dir)]
        words += ["--yes"] if in_place else ["--output", str(copy)]
        assert main(words) == 1
        told = capsys.readouterr()
        assert "gone" in told.out
        assert "No space left on device; what was erased stays erased, and the same command" in told.err
        assert not certificate.exists()
        (disk / "filler").unlink()
        assert main(words) == 0
        (partition,) = read(certificate)["partitions"]
        assert partition["records"] > 0


def test_a_signal_while_the_certificate_is_made_ends_the_run_and_the_same_command_writes_it(
    log_dir, copy, tmp_path, capsys, monkeypatch
) -> None:
    certificate, search = tmp_path / "cert.json", proving.search

    def signalled(*means: Any) -> Any:
        monkeypatch.setattr(proving, "search", search)
        os.kill(os.getpid(), signal.SIGTERM)
        return search(*means)

    monkeypatch.setattr(proving, "search", signalled)
    assert run(log_dir, copy, "--certificate", str(certificate)) == 143
    assert "not written: the run was stopped" in capsys.readouterr().err
    assert not certificate.exists()
    assert run(log_dir, copy, "--certificate", str(certificate)) == 0
    assert sum(partition["records"] for partition in read(certificate)["partitions"]) > 0


def test_an_erased_copy_is_fetched_with_its_journal_and_cleaned_on(log_dir, copy, tmp_path, capsys) -> None:
    assert run(log_dir, copy) == 0
    fetched = tmp_path / "fetched"
    assert main(["fetch", f"file://{copy}", str(fetched)]) == 0
    assert {p.relative_to(fetched): d for p, d in contents(fetched).items()} == {
        p.relative_to(copy): d for p, d in contents(copy).items()
    }
    assert main(["clean", "--force-compaction", "--log-dir", str(fetched)]) == 0
    capsys.readouterr()
    assert main(["history", "--json", "--log-dir", str(fetched)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["log_dirs"]
    assert [entry["what"] for entry in found["entries"]][:3] == ["erase", "compact", "compact"]
