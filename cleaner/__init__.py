"""Acts: reads facts, asks policies, executes plans, tells people.

Nouns:
    Cleaner: plans and cleans some log dirs (``engine.cleaner``).
    Outcome: what a run did, or would have done (``engine.outcome``).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cleaner.engine.cleaner import Cleaner

__version__ = "0.1.0"
__all__ = ["Cleaner"]


def __getattr__(name: str) -> object:
    """``from cleaner import Cleaner`` without every ``--help`` paying for the engine."""
    if name == "Cleaner":
        from cleaner.engine.cleaner import Cleaner  # noqa: PLC0415

        return Cleaner
    raise AttributeError(name)
