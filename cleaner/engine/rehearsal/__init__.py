"""Dry runs: the results of a plan, and of runs with other values.

Nouns: ``Rehearsal`` (the figures of a plan), ``Supposing`` (plans again with other values), ``Answer`` (of a question).
"""

from cleaner.engine.rehearsal.rehearsal import Rehearsal

__all__ = ["Rehearsal"]
