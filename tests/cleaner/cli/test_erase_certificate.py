"""``erase --certificate``, ``--check`` and ``--pending`` as a user runs them."""

from __future__ import annotations

import hmac
import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from storage.filesystem import FileSystem
from storage.log_dir import LogDir
from storage.names import HIGH_WATERMARK_CHECKPOINT

KEY = "order-0-0003"


@pytest.fixture
def log_dir(demo: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo, tmp_path / "data")


def erase(log_dir: Path, certificate: Path, *words: str, key: str = KEY) -> int:
    words = ("--yes", "--certificate", str(certificate), *words)
    return main(["erase", "--topic", "orders-0", key, *words, "--log-dir", str(log_dir)])


def check(certificate: Path, *words: str) -> int:
    return main(["erase", "--check", str(certificate), *words])


def read(certificate: Path) -> Any:
    return json.loads(certificate.read_bytes())


def checked(certificate: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    capsys.readouterr()
    status = check(certificate, "--json")
    return status, [file["state"] for file in json.loads(capsys.readouterr().out)["files"]]


def sealed_log(log_dir: Path) -> Path:
    return min((log_dir / "orders-0").glob("*.log"))


def test_the_certificate_has_the_files_before_and_after_and_no_key(log_dir, tmp_path, capsys) -> None:
    before = {p.name: sha256(p.read_bytes()).hexdigest() for p in (log_dir / "orders-0").glob("*.log")}
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate) == 0
    found = read(certificate)
    (partition,) = found["partitions"]
    assert partition["outcome"] == "ERASED"
    changed = [file for file in partition["files"] if file["before"]]
    assert changed
    for file in partition["files"]:
        name = Path(file["path"]).name
        assert file["after"]["sha256"] == sha256((log_dir / file["path"]).read_bytes()).hexdigest()
        assert (file["before"] or file["after"])["sha256"] == before[name]
        erased = sum(last - first + 1 for deed in file["deeds"] for first, last in deed["ranges"])
        assert erased == sum(deed["records"] for deed in file["deeds"])
    assert [file["active"] for file in partition["files"]][-1]
    assert "Unlinked, not overwritten; consumers, mirrors and snapshots not covered." in found["limits"]
    assert any(holder["path"].endswith(".deleted") and holder["values"] for holder in found["holders"])
    secret = tmp_path / "cert.json.secret"
    assert secret.stat().st_mode & 0o777 == 0o600
    key = bytes.fromhex(secret.read_text().strip())
    assert found["keys"]["hmac_sha256"] == [hmac.new(key, KEY.encode(), sha256).hexdigest()]
    text = certificate.read_text()
    assert KEY not in text
    assert not any(make(KEY.encode()).hexdigest() in text for make in (sha256,))
    assert checked(certificate, capsys)[0] == 0


def test_a_certificate_that_was_not_written_is_written_by_the_same_command(log_dir, tmp_path) -> None:
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate) == 0
    first = read(certificate)
    certificate.unlink()  # as if the run had died between deed and certificate
    assert erase(log_dir, certificate) == 0
    again = read(certificate)
    assert again["request"] == first["request"]
    (one,), (other,) = first["partitions"], again["partitions"]
    assert other["records"] == one["records"] > 0
    assert [(f["before"], f["after"]) for f in other["files"]] == [(f["before"], f["after"]) for f in one["files"]]


def test_a_flipped_bit_a_rewritten_and_a_missing_file_are_told(log_dir, tmp_path, capsys) -> None:
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    log = sealed_log(log_dir)
    data, status = log.read_bytes(), log.stat()
    with log.open("r+b") as file:
        file.seek(len(data) // 2)
        file.write(bytes([data[len(data) // 2] ^ 1]))
    os.utime(log, ns=(status.st_atime_ns, status.st_mtime_ns))
    status, states = checked(certificate, capsys)
    assert (status, states[0]) == (4, "DIFFERS")
    log.write_bytes(data)
    assert checked(certificate, capsys)[0] == 0
    assert erase(log_dir, tmp_path / "other.json", key="order-0-0004") == 0
    status, states = checked(certificate, capsys)
    assert status == 0
    assert "REWRITTEN" in states
    log.unlink()
    assert "GONE" in checked(certificate, capsys)[1]


def test_erased_records_that_are_back_are_found(log_dir, tmp_path, capsys) -> None:
    before = shutil.copytree(log_dir, tmp_path / "before")
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    (partition,) = read(certificate)["partitions"]
    changed = next(file["path"] for file in partition["files"] if file["before"])
    shutil.copy(before / changed, tmp_path / "new")
    (tmp_path / "new").replace(log_dir / changed)
    status, states = checked(certificate, capsys)
    assert status == 4
    assert "RETURNED" in states


def test_erased_records_that_are_back_in_a_segment_of_another_base_offset_are_found(log_dir, tmp_path, capsys) -> None:
    """As a replica that was fetched anew from one that was not erased has them: its segments end elsewhere."""
    log, certificate = sealed_log(log_dir), tmp_path / "cert.json"
    data = log.read_bytes()
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    second = 12 + int.from_bytes(data[8:12], "big")
    base_offset = int.from_bytes(data[second : second + 8], "big")
    log.unlink()
    assert checked(certificate, capsys) == (0, ["GONE", *["AS_CERTIFIED"] * 3])
    log.with_name(f"{base_offset:020d}.log").write_bytes(data[second:])
    assert checked(certificate, capsys) == (4, ["GONE", *["AS_CERTIFIED"] * 3, "RETURNED"])
    other = (log_dir / "orders-0").rename(tmp_path / "orders-0")
    log.parent.mkdir()
    log.write_bytes(b"".join(path.read_bytes() for path in sorted(other.glob("*.log"))))  # as merged into the first
    status, states = checked(certificate, capsys)
    assert (status, states[0]) == (4, "RETURNED")


def test_erased_records_that_are_back_are_found_where_the_ranges_of_two_deeds_overlap(
    log_dir, tmp_path, capsys
) -> None:
    log, certificate = sealed_log(log_dir), tmp_path / "cert.json"
    data = log.read_bytes()
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    second = 12 + int.from_bytes(data[8:12], "big")
    base_offset = int.from_bytes(data[second : second + 8], "big")
    document = read(certificate)
    document["partitions"][0]["files"][0]["deeds"][0]["ranges"] = [[0, base_offset], [1, 1]]
    certificate.write_text(json.dumps(document))
    log.unlink()
    log.with_name(f"{base_offset:020d}.log").write_bytes(data[second:])
    assert base_offset > 1
    assert checked(certificate, capsys) == (4, ["GONE", *["AS_CERTIFIED"] * 3, "RETURNED"])


def test_erased_records_that_are_back_are_found_by_a_certificate_made_of_the_journal(log_dir, tmp_path, capsys) -> None:
    log, certificate = sealed_log(log_dir), tmp_path / "cert.json"
    before = log.read_bytes()
    for _ in range(2):
        certificate.unlink(missing_ok=True)
        assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    (partition,) = read(certificate)["partitions"]
    assert [deed["ranges"] for deed in partition["files"][0]["deeds"]] == [[]]
    log.unlink()
    log.write_bytes(before)
    assert checked(certificate, capsys) == (4, ["RETURNED", *["AS_CERTIFIED"] * 3])


def test_a_file_that_could_not_be_read_for_the_certificate_is_told_as_such(log_dir, tmp_path, capsys) -> None:
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate) == 0
    document = read(certificate)
    document["partitions"][0]["files"][0]["after"] = None
    certificate.write_text(json.dumps(document))
    assert check(certificate) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "REWRITTEN: it could not be read when the certificate was made: no hash" in told


def test_the_certificate_is_written_though_stdout_takes_no_report(log_dir, tmp_path, monkeypatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("cleaner.cli.change.erase.show", gone)
    assert erase(log_dir, tmp_path / "cert.json") == 1
    (partition,) = read(tmp_path / "cert.json")["partitions"]
    assert all(deed["ranges"] for file in partition["files"] for deed in file["deeds"])


def test_a_repacked_segment_is_told_by_the_journal(log_dir, tmp_path, capsys) -> None:
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate) == 0
    repack = ("--repack", "--codec", "zstd", "--topic", "orders-0", "--only", "retention", "--yes")
    assert main(["clean", *repack, "--log-dir", str(log_dir)]) == 0
    capsys.readouterr()
    assert main(["erase", "--check", str(certificate), "--json"]) == 0
    texts = [file["text"] for file in json.loads(capsys.readouterr().out)["files"] if file["state"] == "REWRITTEN"]
    assert texts
    assert all("repack" in text for text in texts)


def test_an_active_segment_may_grow(log_dir, tmp_path, capsys) -> None:
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate) == 0
    log = max((log_dir / "orders-0").glob("*.log"))
    log.write_bytes(log.read_bytes() + b"more")
    status, states = checked(certificate, capsys)
    assert (status, states[-1]) == (0, "GROWN")


@pytest.mark.parametrize(
    ("epoch", "is_in_checkpoint", "expected"),
    [(7, True, (0, "REWRITTEN")), (7, False, (4, "DIFFERS")), (5, True, (4, "DIFFERS"))],
)
def test_an_end_that_a_new_leader_replaced_is_told_from_a_changed_file(
    log_dir, tmp_path, capsys, epoch, is_in_checkpoint, expected
) -> None:
    """A broker that was killed as leader cuts off its end, and fetches it from the new one: into the same file."""
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    log = sealed_log(log_dir)
    data, last = log.read_bytes(), 0
    while (after := last + 12 + int.from_bytes(data[last + 8 : last + 12], "big")) < len(data):
        last = after
    with log.open("r+b") as file:  # the epoch lies outside of the checksum
        file.seek(last + 12)
        file.write(epoch.to_bytes(4, "big"))
    if is_in_checkpoint:
        checkpoint = log.with_name("leader-epoch-checkpoint")
        version, count, *entries = checkpoint.read_text().splitlines()
        entries.append(f"7 {int.from_bytes(data[last : last + 8], 'big')}")
        checkpoint.write_text("\n".join([version, str(int(count) + 1), *entries, ""]))
    status, states = checked(certificate, capsys)
    assert (status, states[0]) == expected


def test_a_log_dir_that_lies_elsewhere_now_is_named(log_dir, tmp_path, capsys) -> None:
    certificate = tmp_path / "cert.json"
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    moved = log_dir.rename(tmp_path / "moved")
    assert check(certificate) == 6
    assert "say with --log-dir where it lies now" in capsys.readouterr().err
    assert check(certificate, "--log-dir", str(moved)) == 0
    assert "4 as certified" in capsys.readouterr().out
    shutil.rmtree(moved / "orders-0")
    assert check(certificate, "--log-dir", str(moved)) == 2
    assert f"no partition of this certificate lies in {moved}" in capsys.readouterr().err


@pytest.mark.parametrize(("key", "there"), [("node.id", "2"), ("cluster.id", "other")])
def test_a_log_dir_of_another_broker_is_refused_wherever_it_lies(log_dir, tmp_path, capsys, key, there) -> None:
    ids, certificate = {"version": "1", "node.id": "1", "cluster.id": "ours"}, tmp_path / "cert.json"
    other = shutil.copytree(log_dir, tmp_path / "other")
    for place, properties in ((log_dir, ids), (other, ids | {key: there})):
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        (place / "meta.properties").write_text(lines)
    assert erase(log_dir, certificate) == 0
    assert check(certificate, "--log-dir", str(other)) == 2
    told = capsys.readouterr().err
    assert f"is of {key} {ids[key]}, and {other} of {there}; check it on that broker" in told
    shutil.rmtree(log_dir)
    other.rename(log_dir)
    assert check(certificate) == 2


def test_pending_names_the_replica_that_is_owed(log_dir, tmp_path, capsys) -> None:
    ours, other = tmp_path / "1.json", tmp_path / "2.json"
    assert erase(log_dir, ours, "--delete-delay", "0") == 0
    document = read(ours)
    document["node_id"], document["partitions"][0]["replicas"] = 1, [1, 2]
    ours.write_text(json.dumps(document))
    assert main(["erase", "--pending", str(ours)]) == 10
    assert "broker 2      owed" in capsys.readouterr().out
    other.write_text(json.dumps(document | {"node_id": 2, "host": "b"}))
    assert main(["erase", "--pending", str(ours), str(other)]) == 0
    assert "none is owed" in capsys.readouterr().out
    other.write_text(json.dumps(document | {"request": "x"}))
    assert main(["erase", "--pending", str(ours), str(other)]) == 2
    assert "of another request" in capsys.readouterr().err


IDS = "version=1\nnode.id=1\ncluster.id=ours\n"


def pending(capsys: pytest.CaptureFixture[str], *certificates: Path) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["erase", "--pending", *map(str, certificates)])
    return status, " ".join(capsys.readouterr().out.split())


def known_to_metadata(certificate: Path, *replicas: int) -> None:
    """State the replicas, as if the log dir had the cluster's metadata log."""
    document = read(certificate)
    for partition in document["partitions"]:
        partition["replicas"] = list(replicas)
    certificate.write_text(json.dumps(document))


def test_a_partition_that_lies_elsewhere_is_owed_until_it_is_certified_there(log_dir, tmp_path, capsys) -> None:
    """Another disk that nobody named, and a broker that has no partition in common with this one, look the same."""
    (log_dir / "meta.properties").write_text(IDS)
    other = tmp_path / "other"
    shutil.copytree(log_dir, other, ignore=shutil.ignore_patterns("[a-z]*-?"))
    (log_dir / "orders-1").rename(other / "orders-1")
    here, there = tmp_path / "1.json", tmp_path / "2.json"
    words = ["erase", "--topic", "orders", KEY, "--yes", "--delete-delay", "0", "--certificate"]
    assert main([*words, str(here), "--log-dir", str(log_dir)]) == 0
    assert [one["partition"] for one in read(here)["unseen"]] == [1]
    status, told = pending(capsys, here)
    assert status == 10
    assert "orders-1 broker 1 owed: no certificate speaks of it" in told
    assert main([*words, str(there), "--secret", f"{here}.secret", "--log-dir", str(other)]) == 0
    assert pending(capsys, here, there)[0] == 0


def test_a_hard_link_that_keeps_the_old_bytes_is_in_the_certificate(log_dir, tmp_path) -> None:
    for number, links in enumerate((0, 1)):
        copied = shutil.copytree(log_dir, tmp_path / str(number))
        if links:
            os.link(sealed_log(copied), tmp_path / "link")
        assert erase(copied, tmp_path / f"{number}.json") == 0
        assert any("hard link" in one for one in read(tmp_path / f"{number}.json")["limits"]) == bool(links)


def test_what_could_not_be_searched_is_pending_until_it_was(log_dir, tmp_path, capsys) -> None:
    certificate, again = tmp_path / "1.json", tmp_path / "2.json"
    stray = shutil.copytree(log_dir / "orders-0", log_dir / f"orders-0.{'0' * 32}-stray")
    log = min(stray.glob("*.log"))
    log.write_bytes(b"\0\1" * 100)
    for other in stray.glob("*"):
        if other != log:
            other.unlink()
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    known_to_metadata(certificate, 1)
    status, told = pending(capsys, certificate)
    assert (status, "none is owed" in told) == (10, True)
    assert f"{log} at byte 0" in told
    shutil.rmtree(stray)
    assert erase(log_dir, again, "--delete-delay", "0", "--secret", f"{certificate}.secret") == 0
    known_to_metadata(again, 1)
    assert pending(capsys, certificate, again)[0] == 0


def test_the_certificate_of_a_copied_log_dir_makes_no_broker_erased(log_dir, tmp_path, capsys) -> None:
    (log_dir / "meta.properties").write_text(IDS)
    copied, checkpoint = shutil.copytree(log_dir, tmp_path / "copied"), log_dir / HIGH_WATERMARK_CHECKPOINT
    committed = checkpoint.read_bytes()
    checkpoint.write_text("0\n1\norders 0 100\n")
    own, copy = tmp_path / "own.json", tmp_path / "copy.json"
    at_once, same = ("--delete-delay", "0"), ("--secret", f"{own}.secret")
    assert erase(log_dir, own, *at_once) == 10
    assert erase(copied, copy, *at_once, *same) == 0
    for certificate in (own, copy):
        known_to_metadata(certificate, 1)
    status, told = pending(capsys, own, copy)
    assert status == 10
    assert "broker 1 owed: a record of a key stays there for now" in told
    assert f"also in {copied} on" in told
    assert told.count("leave out the certificates of what is not") == 1
    checkpoint.write_bytes(committed)
    own.unlink()
    assert erase(log_dir, own, *at_once) == 0
    known_to_metadata(own, 1)
    assert pending(capsys, own)[0] == 0
    assert pending(capsys, own, copy)[0] == 0


def test_a_copy_with_a_manifest_is_no_replica_until_it_lies_in_the_place_of_the_original(
    log_dir, tmp_path, capsys
) -> None:
    (log_dir / "meta.properties").write_text(IDS)
    output, certificate = tmp_path / "output", tmp_path / "cert.json"
    assert main(["clean", "--output", str(output), "--log-dir", str(log_dir)]) == 0
    assert erase(output, certificate, "--delete-delay", "0") == 0
    assert read(certificate)["log_dirs"][0]["copy_of"] == str(log_dir)
    known_to_metadata(certificate, 1)
    status, told = pending(capsys, certificate)
    assert status == 10
    assert "broker 1 owed: no certificate speaks of it" in told
    assert "which is no replica" in told
    shutil.rmtree(log_dir)
    output.rename(log_dir)
    certificate.unlink()
    assert erase(log_dir, certificate, "--delete-delay", "0") == 0
    known_to_metadata(certificate, 1)
    assert pending(capsys, certificate)[0] == 0


def test_two_brokers_share_a_secret(log_dir, tmp_path) -> None:
    second = shutil.copytree(log_dir, tmp_path / "second")
    assert erase(log_dir, tmp_path / "1.json") == 0
    assert erase(second, tmp_path / "2.json", "--secret", str(tmp_path / "1.json.secret")) == 0
    one, two = read(tmp_path / "1.json"), read(tmp_path / "2.json")
    assert (one["request"], one["keys"]) == (two["request"], two["keys"])
    assert not (tmp_path / "2.json.secret").exists()


def test_records_that_stay_are_certified_as_such(log_dir, tmp_path) -> None:
    (log_dir / HIGH_WATERMARK_CHECKPOINT).write_text("0\n1\norders 0 100\n")
    assert erase(log_dir, tmp_path / "cert.json") == 10
    (partition,) = read(tmp_path / "cert.json")["partitions"]
    assert partition["outcome"] == "STAYS"


def test_a_signed_certificate_is_checked_by_its_signature(log_dir, tmp_path, capsys) -> None:
    key, certificate, allowed = tmp_path / "key", tmp_path / "cert.json", tmp_path / "allowed"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    allowed.write_text(f"dpo@example.com {(tmp_path / 'key.pub').read_text()}")
    assert erase(log_dir, certificate, "--sign", str(key)) == 0
    assert check(certificate, "--allowed-signers", str(allowed)) == 0
    assert "signed by dpo@example.com" in capsys.readouterr().out
    certificate.write_text(certificate.read_text().replace("in_place", "in_plaxe"))
    assert check(certificate) == 4
    assert check(certificate, "--allowed-signers", str(allowed)) == 4
    (tmp_path / "cert.json.sig").unlink()
    assert check(certificate, "--allowed-signers", str(allowed)) == 4
    assert "has no signature" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--topic", "orders", KEY, "-n", "--certificate", "c"), "does not go with --dry-run"),
        (("--topic", "orders", KEY, "--secret", "c"), "needs --certificate"),
        (("--check", "c", KEY), "erases nothing, so it does not go with RECORD-KEY"),
        (("--check", "c", "--pending", "d"), "does not go with --pending"),
    ],
)
def test_wrong_usage_is_told(log_dir, capsys, words, told) -> None:
    assert main(["erase", *words, "--log-dir", str(log_dir)]) == 2
    assert told in capsys.readouterr().err


def test_a_secret_that_others_may_read_is_refused_before_anything_is_erased(log_dir, tmp_path, capsys) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0" * 64 + "\n")
    secret.chmod(0o644)
    before = {path: path.read_bytes() for path in (log_dir / "orders-0").glob("*")}
    assert erase(log_dir, tmp_path / "cert.json", "--secret", str(secret)) == 2
    assert "chmod 600" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (log_dir / "orders-0").glob("*")} == before


def test_what_is_refused_leaves_no_file_behind(log_dir, tmp_path, capsys) -> None:
    certificate, output = tmp_path / "cert.json", tmp_path / "output"
    words = ["erase", "--topic", "orders-0", KEY, "--certificate", str(certificate), "--log-dir", str(log_dir)]
    before = set(tmp_path.iterdir())
    assert main(words) == 5
    assert "add --yes" in capsys.readouterr().err
    with LogDir(log_dir).lock(FileSystem()):
        assert main([*words, "--yes"]) == 3
    assert main([*words, "--output", str(log_dir)]) == 2
    (log_dir / HIGH_WATERMARK_CHECKPOINT).unlink()
    assert main([*words, "--output", str(output)]) == 5
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--topic", "orders-0", KEY, "--yes", "--certificate", "c", "--secret", "nowhere"), "FILE.secret"),
        (("--topic", "orders-0", KEY, "--yes", "--certificate", "c", "--sign", "nowhere"), "cannot be read"),
        (("--check", "nowhere"), "name the file that --certificate wrote"),
        (("--check", "nowhere", "--allowed-signers", "either"), "name the file that --certificate wrote"),
        (("--pending", "nowhere"), "name the file that --certificate wrote"),
    ],
)
def test_a_named_file_that_is_not_there_is_wrong_usage(log_dir, tmp_path, monkeypatch, capsys, words, told) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    assert main(["erase", *words, "--log-dir", str(log_dir)]) == 2
    err = capsys.readouterr().err
    assert "nowhere: " in err
    assert told in err
    assert set(tmp_path.iterdir()) == before


def test_a_certificate_with_any_field_missing_or_of_another_type_is_told_as_such(log_dir, tmp_path, capsys) -> None:
    certificate, mangled = tmp_path / "cert.json", tmp_path / "mangled.json"
    assert erase(log_dir, certificate) == 0
    told = set()
    for place in places(read(certificate)):
        for value in (None, "x", [], {}):
            document = read(certificate)
            part = document
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = value
            mangled.write_text(json.dumps(document))
            for option in ("--check", "--pending"):
                status = main(["erase", option, str(mangled)])
                err = capsys.readouterr().err
                assert "bug" not in err, (place, value, option, err)
                told.add((status, "is no certificate of an erasure" in err))
    assert (1, True) in told


def places(part: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the keys that lead to each value of a document, of lists to those of the first item."""
    inner = part.items() if isinstance(part, dict) else enumerate(part[:1]) if isinstance(part, list) else ()
    return [found for key, value in inner for found in ((*above, key), *places(value, (*above, key)))]


@pytest.mark.parametrize("option", ["--check", "--pending"])
@pytest.mark.parametrize("made", ["missing", "directory", "text", "json"])
def test_what_is_no_certificate_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, made: str
) -> None:
    path = tmp_path / "certificate"
    if made == "directory":
        path.mkdir()
    elif made != "missing":
        path.write_text("{}" if made == "json" else "hello")
    assert main(["erase", option, str(path)]) == 2
    assert "name the file that --certificate wrote" in capsys.readouterr().err
