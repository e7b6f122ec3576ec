"""Text of unknown origin, made fit for a terminal."""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
"""The control characters as UTF-8, without the tab and the end of a line."""


_OF_TIER: Final = re.compile(r"tier://([\w.~%:+@=!-]*[\w~%=!-])((?:/[\w.-]*\w)*)", re.ASCII)
"""A path of ``storage.tiers.view``: the tier and the log dirs that are read as one, and what is named in them."""


def printable(text: str) -> str:
    """Escape control characters and undecodable bytes, so that no topic name can move the cursor.

    A path of a tier that is read together with log dirs is told in the words of the user.
    """
    if "tier://" in text:
        text = _OF_TIER.sub(_as_named, text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _as_named(found: re.Match[str]) -> str:
    from urllib.parse import unquote  # noqa: PLC0415 - hardly any line names a tier

    tier, *log_dirs = (unquote(part) for part in re.split("[@!]", found[1])[0].split("+"))
    places = f"{tier} with {', '.join(log_dirs)}" if log_dirs else tier
    return f"{found[2][1:]} of {places}" if found[2] else places


def printable_lines(lines: bytes | memoryview) -> bytes:
    """Escape the control characters in lines of UTF-8, for a terminal; their ends and tabs stay."""
    return _CONTROLS.sub(lambda found: found[0].decode().encode("unicode_escape"), bytes(lines))
