"""The reader of batches in bulk.

Nouns: a *window* is bytes of one file in memory; a *slice* is the batches found in one window; a *position* is a point
between two batches; a *run* is rows of a slice whose plain records lie in one buffer, an *arena* if they had to be
decompressed; an *extent* is the part of a ``.log`` that one reading covers; a *chunk* holds the located fields of the
records of one buffer.
"""
