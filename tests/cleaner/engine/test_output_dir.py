"""What a copy says of a directory that it cannot list."""

from __future__ import annotations

import pytest

from cleaner.engine.output import plain_files
from storage.errors import UnreadableFile


def test_directory_that_cannot_be_listed_is_told_with_the_systems_words(tmp_path):
    with pytest.raises(UnreadableFile) as caught:
        plain_files(tmp_path / "gone", strict=True)
    assert "No such file or directory" in str(caught.value)
    assert "[Errno" not in str(caught.value)
