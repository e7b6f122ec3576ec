"""The codecs of record batches: gzip, snappy, lz4, zstd.

Nouns: ``compression`` is the entrance for one payload, readable, with the last word on damaged bytes; a *framing* is
the bytes that Kafka's clients put around a codec's blocks; ``batches`` and ``rewrite_batches`` work on many batches at
a call, by kernels.
"""
