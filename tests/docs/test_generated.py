"""What is committed of the documents is what the generators give; ``python -m tests.docs`` writes it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from policies.config.config_keys import BROKER_KEYS, TOPIC_KEYS
from policies.config.key_descriptions import MEANINGS
from tests.docs import picture
from tests.docs.__main__ import main as write_documents
from tests.docs.blocks import ROOT
from tests.docs.parts import DOCS, pages, with_parts

REMEDY = "run python -m tests.docs and commit what it writes"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", pages())
def test_the_generated_parts_of_a_page_are_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text("utf-8") == with_parts(name), REMEDY


def test_every_key_of_ours_has_a_meaning_and_every_meaning_a_key() -> None:
    keys = {key.name: key for key in (*TOPIC_KEYS, *BROKER_KEYS)}
    assert set(MEANINGS) <= set(keys)
    assert {name for name, key in keys.items() if key.ours} <= set(MEANINGS)


def test_a_key_without_a_meaning_is_one_that_nothing_acts_on() -> None:
    product = "\n".join(path.read_text("utf-8") for folder in ("cleaner", "policies", "storage")
                        for path in sorted((ROOT / folder).rglob("*.py")))  # fmt: skip
    acted_on = {key.name for key in (*TOPIC_KEYS, *BROKER_KEYS)
                if re.search(rf"\b(policy|broker|stated|broker_policy\(\))\.{key.field}\b", product)}  # fmt: skip
    assert acted_on - set(MEANINGS) == set()
    assert len(acted_on) > 20, "the pattern finds nothing any more"


def words(svg: str) -> str:
    """Return the text of a picture; sizes differ with the versions of the codecs, so digits are left out."""
    texts = (element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text"))
    return re.sub(r"[\d.]+", "0", " ".join(" ".join(texts).split()))


def test_the_picture_of_the_readme_shows_what_a_run_prints() -> None:
    committed = picture.PICTURE.read_text("utf-8")
    assert words(committed) == words(picture.picture()), REMEDY
    assert "RETENTION_TIME" in words(committed)
    assert re.findall(r"https?://(?!www\.w3\.org|www\.textualize\.io)", committed) == []  # it fetches nothing


def test_the_picture_is_the_one_that_the_readme_shows() -> None:
    shown = re.findall(r"^!\[.*?\]\((.*?)\)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert shown == [Path(picture.PICTURE).relative_to(ROOT).as_posix()]


def test_a_picture_that_cannot_be_made_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> str:
        raise subprocess.CalledProcessError(1, "logcleaner", stderr="kernels: run python -m storage.compiler\n")

    monkeypatch.setattr(picture, "picture", fails)
    monkeypatch.setattr("tests.docs.__main__.pages", lambda: ())
    with pytest.raises(SystemExit, match=r"^dry-run\.svg was not made: kernels: run python -m storage\.compiler$"):
        write_documents()
