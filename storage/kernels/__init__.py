"""The hot path of compaction, compiled by numba. Importing this package compiles nothing and does not import
numba.

Nouns: a *window* is a stretch of a ``.log`` as ``uint8``; a *batch table* (``layout.BATCH``) holds one row
for each record batch found in it; an *ordinal* numbers every record of the range being cleaned in scan
order; the *offset map* takes a key's hash to the greatest ordinal seen; the *survivor bitmap* has one bit
for each ordinal.

A round: ``scan`` fills the table, ``crc`` verifies it, ``offset_map`` learns keys and marks survivors,
``decide`` says what becomes of each batch, ``rewrite`` writes it, ``index`` says which index entries it
gets. Kernels hold no state and raise nothing: each returns a ``status.Status`` with the row where it
stopped, and the caller makes the error.
"""
