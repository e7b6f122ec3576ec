"""Text of unknown origin, made fit for a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleaner.printable import printable
from storage.stores.paths import path_of_text
from storage.tiers.view import view_of


@pytest.mark.parametrize("tier", ["/mnt/the tier/x", "s3://bucket/some/prefix-"])
@pytest.mark.parametrize("log_dirs", [[], ["/mnt/old"], ["/mnt/o-1", "/mnt/o.2"]])
@pytest.mark.parametrize("keys", [[], ["a=/k/a.pem", "/k/b.pem"]])
@pytest.mark.parametrize("globs", [None, [], ["orders*"]])
def test_path_of_a_tier_is_told_as_the_user_named_it(
    tier: str, log_dirs: list[str], keys: list[str], globs: list[str] | None
) -> None:
    view = view_of(path_of_text(tier), map(Path, log_dirs), keys, globs)
    named = f"{tier} with {', '.join(log_dirs)}" if log_dirs else tier
    log = view / "orders-0" / f"{7:020d}.log"
    assert printable(f"{view}: is it one?") == f"{named}: is it one?"
    assert printable(f"{log}: at byte 0, and {log}.") == "{0}: at byte 0, and {0}.".format(
        f"orders-0/{7:020d}.log of {named}"
    )
