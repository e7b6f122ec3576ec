"""The reader of batches in bulk.

Nouns: a *window* is bytes of one file in memory; an *extent* is the part of a ``.log`` that one reading covers; a
*chunk* holds the located fields of the records of one buffer.
"""
