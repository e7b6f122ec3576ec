"""Dry runs: what a plan would do, and what a run with other values would do.

Nouns: ``Rehearsal`` (the figures of a plan), ``Supposing`` (plans again with other values), ``Answer`` (of a question).
"""

from cleaner.engine.rehearsal.rehearsal import Rehearsal

__all__ = ["Rehearsal"]
