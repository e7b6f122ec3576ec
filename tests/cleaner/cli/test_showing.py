"""JSON documents can be read by any reader, whatever names the disk has."""

from __future__ import annotations

import json
import os

import pytest

from cleaner.cli.showing import document_text

BROKEN = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("name", "told"),
    [(BROKEN, "caf\\udce9"), ("\U0001f480", "\U0001f480"), (f"{BROKEN}\U0001f480", "caf\\udce9\U0001f480"), ("a", "a")],
)
def test_a_name_that_is_no_utf_8_is_valid_json(name: str, told: str) -> None:
    found = json.loads(document_text({"others": [{"name": name, "files": 1}], "kinds": {name: (name, None)}}))
    assert found == {"others": [{"name": told, "files": 1}], "kinds": {told: [told, None]}}
    json.dumps(found, ensure_ascii=False).encode()
