"""The parts that a printing kernel is asked to print; importable without numba."""

from __future__ import annotations

from enum import IntFlag


class Print(IntFlag):
    """Parts of what is printed."""

    BATCHES = 1
    """A line for each batch that has a record."""
    ALL_BATCHES = 2
    """With BATCHES: a line for each batch."""
    RECORDS = 4
    METADATA = 8
    CONTENTS = 16
    HIDE_KEYS = 32
    HIDE_VALUES = 64
    JSON = 128
    """Lines of JSON, not Kafka's text."""
