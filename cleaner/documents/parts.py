"""The keys and types that several documents share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class PartitionPlace(TypedDict):
    """A partition in a log dir."""

    topic: str
    """The topic's name."""
    partition: Count
    """The number of the partition."""
    log_dir: str
    """The path of the log dir that holds the partition."""
