"""Forecasts: how fast logs grow, which size they reach, when a disk is full; and questions about other values.

Nouns: ``Births`` (the bytes written lately), ``LongRun`` (the size that a partition reaches), ``Runway`` (the time
until a disk is full), ``Growth`` (a disk as the daemon watches it), ``Question`` (of ``--what-if``).
"""
