"""Forecasts: how fast logs grow, what they come to hold, when a disk is full; and questions about other values.

Nouns: ``Births`` (what was written lately), ``LongRun`` (what a partition comes to hold), ``Runway`` (until a disk is
full), ``Growth`` (a disk as the daemon watches it), ``Question`` (of ``--what-if``).
"""
