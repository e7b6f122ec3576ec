"""Text of unknown origin, made fit for a terminal."""

from __future__ import annotations

import unicodedata


def without_controls(text: str) -> str:
    """Escape control characters alone: for output that is compared with that of Kafka's own tools."""
    if text.isprintable():
        return text
    return "".join(c.encode("unicode_escape").decode() if unicodedata.category(c) == "Cc" else c for c in text)


def printable(text: str) -> str:
    """Escape control characters and undecodable bytes, so that no topic name can move the cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
