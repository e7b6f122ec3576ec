"""``--html`` of ``clean`` and ``explain``: what is refused before anything is done, and what the page is made of."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from cleaner.cli.main import main
from tests.cleaner.cli.conftest import FakeCleaner, a_log_dir


@pytest.fixture
def data(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "data"))


def names_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def blocks_of_logs(data: Path) -> int:
    """Return the blocks of the files of all segments of topics, also of files that wait to be unlinked."""
    kinds = {".log", ".index", ".timeindex", ".txnindex"}
    return sum(path.stat().st_blocks * 512 for path in data.glob("[!_]*/*") if kinds & set(path.suffixes))


@pytest.mark.parametrize("delay", ["1m", "0"])
def test_a_page_says_what_is_free_now_and_what_when(data: Path, tmp_path: Path, capsys: Any, delay: str) -> None:
    """Files that wait are on the disk: a page that counts them as freed is dangerous on a full one."""
    before = blocks_of_logs(data)
    command = ["clean", "--log-dir", str(data), "--html", str(tmp_path / "a.html"), "--delete-delay", delay]
    for options, bytes_now in ((("--dry-run", "--exact"), lambda _: before), ((), lambda freed: before - freed)):
        assert main([*command, *options]) == 0
        said, page = " ".join(capsys.readouterr().out.split()), (tmp_path / "a.html").read_text("utf-8")
        tiles = dict(re.findall(r'<dt>([^<]*)</dt><dd class="figure"><data value="(-?\d+)">', page))
        at_once = int(tiles["Freed by this run"])
        assert (at_once > 0) == (delay == "0")
        assert int(tiles["On disk now"]) == bytes_now(at_once)
        (note,) = re.findall(r'Freed by this run</dt>.*?<dd class="note"><bdi>([^<]*)<', page, re.DOTALL)
        assert note in said
    assert blocks_of_logs(data) == before - at_once


@pytest.mark.parametrize("command", [("clean",), ("clean", "--dry-run"), ("explain", "clicks-0"), ("analyze",)])
@pytest.mark.parametrize(
    ("page", "because"),
    [
        ("nowhere/a.html", "there is no directory {0}/nowhere; make it"),
        ("data/a.html", "lies in the log dir {0}/data; name a file elsewhere"),
        ("data/../data/clicks-0/a.html", "lies in the log dir {0}/data; name a file elsewhere"),
        ("data", "is no file; name the file to write, such as report.html"),
        ("/dev/stdout", "is no file; name the file to write, such as report.html"),
        ("/dev/full", "is no file; name the file to write, such as report.html"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_anything_is_done(
    data: Path, tmp_path: Path, capsys: Any, command: tuple[str, ...], page: str, because: str
) -> None:
    before = names_in(tmp_path)
    assert main([*command, "--log-dir", str(data), "--html", str(tmp_path / page)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("logcleaner: --html = ")
    assert because.format(tmp_path) in said.err
    assert names_in(tmp_path) == before


@pytest.mark.parametrize("command", [("clean",), ("explain", "clicks-0"), ("analyze",)])
def test_without_the_extra_one_line_says_how_to_get_it(
    data: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("cleaner.report.html.is_drawable", lambda: False)
    before = names_in(tmp_path)
    assert main([*command, "--log-dir", str(data), "--html", str(tmp_path / "a.html")]) == 2
    said = capsys.readouterr()
    assert said.err == (
        f"logcleaner: --html = '{tmp_path / 'a.html'}': needs pygal, which is not installed; "
        "pip install '.[report]' in the sources of logcleaner, or 'FILE.whl[report]'\n"
    )
    assert said.out == ""
    assert names_in(tmp_path) == before


def test_a_run_that_changed_something_is_a_page_too(data: Path, tmp_path: Path, capsys: Any) -> None:
    config = tmp_path / "logcleaner.toml"
    config.write_text('[defaults]\nretention.ms = "2d"\n')
    page = tmp_path / "a.html"
    command = ["clean", "--log-dir", str(data), "--config", str(config), "--html", str(page), "--json"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    report, text = document["report"], page.read_text("utf-8")
    assert report["command"] == ["logcleaner", *command]
    assert [Path(file["path"]).name for file in report["configuration_files"]] == [config.name, "__cluster_metadata-0"]
    assert [file["sha256"] and len(file["sha256"]) for file in report["configuration_files"]] == [64, None]
    assert "What clean did" in text
    assert report["sentence"].startswith("This run deleted 14 segments of 4 partitions")
    assert report["runway"]
    assert "runway" not in document
    assert report["totals"]["bytes_now"] == blocks_of_logs(data)
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".tmp")]


def test_what_the_doctor_finds_is_on_the_page(
    data: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "orders-1" / f"{0:020d}.log").write_bytes(b"")
    page = tmp_path / "a.html"
    command = ["clean", "--dry-run", "--log-dir", str(data), "--html", str(page), "--json"]
    main(command)
    findings = json.loads(capsys.readouterr().out)["report"]["findings"]
    gap = next(finding for finding in findings if finding["code"] == "OFFSET_GAP")
    assert (gap["topic"], gap["partition"], gap["log_dir"]) == ("orders", 1, str(data))
    assert "OFFSET_GAP" in page.read_text("utf-8")
    monkeypatch.setattr("cleaner.pages.doctored.SEGMENTS_MAX", 1)
    main(command)
    codes = {finding["code"] for finding in json.loads(capsys.readouterr().out)["report"]["findings"]}
    assert "DOCTOR_NOT_ASKED" in codes
    assert "OFFSET_GAP" not in codes


def test_the_page_is_written_once_the_locks_are_free(
    engine: FakeCleaner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cleaner.pages.writing.write_page", lambda *_: engine.asked.append(("page", None)))
    monkeypatch.setattr("cleaner.pages.doctored.doctored", lambda *_: [])  # the engine's log dir is not there
    assert main(["clean", "--log-dir", str(a_log_dir(tmp_path / "data")), "--html", str(tmp_path / "a.html")]) == 0
    assert [what for what, _ in engine.asked] == ["clean", "plan", "page"]


def test_a_page_that_fails_behind_the_run_fails_the_command_alone(
    data: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, contents: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cleaner.replacing.replace_file", full)
    assert main(["clean", "--log-dir", str(data), "--html", str(tmp_path / "a.html")]) == 1
    said = capsys.readouterr()
    assert "Deleted" in said.out
    assert said.err.splitlines()[-1] == f"logcleaner: {tmp_path / 'a.html'}: cannot be written: No space left on device"


def test_an_older_page_is_replaced_as_a_whole(data: Path, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    page.write_text("old")
    with page.open() as still_read:
        assert main(["explain", "clicks-0", "12500", "--log-dir", str(data), "--html", str(page)]) == 0
        assert still_read.read() == "old"
    assert "Files of the segment" in page.read_text("utf-8")


def test_a_dash_an_empty_name_and_a_protected_file_are_refused(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept.html").write_text("kept")
    (tmp_path / "kept.html").chmod(0o444)
    for name in ("-", "", "kept.html"):
        assert main(["explain", "clicks-0", "--log-dir", str(tmp_path), "--html", name]) == 2
        assert ("is write-protected" if name == "kept.html" else "is no file") in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept.html"]
    assert (tmp_path / "kept.html").read_text() == "kept"


def test_a_link_is_followed_and_stays(data: Path, tmp_path: Path, capsys: Any) -> None:
    link = tmp_path / "link.html"
    for place, status in (("pages/a.html", 2), ("data/a.html", 2), ("a.html", 0)):
        link.symlink_to(place)
        assert main(["explain", "clicks-0", "--log-dir", str(data), "--html", str(link)]) == status
        assert link.is_symlink()
        link.unlink()
    assert (tmp_path / "a.html").is_file()
    assert not (data / "a.html").exists()


@pytest.mark.parametrize(
    ("partition", "does"),
    [
        ("orders-0", r"Clean compacts \d+ segments \([\d.]+ MiB\) of the \d+ segments \([\d.]+ MiB\) of orders-0\. "),
        ("clicks-0", r"Clean deletes \d+ segments \([\d.]+ MiB\) of the \d+ segments \([\d.]+ MiB\) of clicks-0\. "),
        ("empty-0", r"Clean changes nothing of the 1 segment \(0 bytes\) of empty-0\. "),
    ],
)
def test_the_sentence_of_explain_says_what_a_clean_does(
    data: Path, tmp_path: Path, capsys: Any, partition: str, does: str
) -> None:
    assert main(["explain", partition, "--log-dir", str(data), "--html", str(tmp_path / "a.html"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert re.match(does, report["sentence"])
    assert report["totals"]["compacted_segments"] == report["partitions"][0]["compacted_segments"]


def test_explain_of_a_partition_that_cannot_be_read_is_a_page(data: Path, tmp_path: Path) -> None:
    log = next((data / "clicks-0").glob("*.log"))
    log.unlink()
    log.mkdir()
    page = tmp_path / "a.html"
    assert main(["explain", "clicks-0", "--log-dir", str(data), "--html", str(page)]) == 1
    assert "clicks-0 cannot be read." in page.read_text("utf-8")
