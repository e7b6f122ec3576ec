"""Records and batches as lines, for ``cleaner.dump``, at full speed.

One kernel prints text and JSON, in the words of the vocabulary that the caller hands it. The readable twins are
``cleaner.dump.text`` and ``cleaner.dump.json_lines``.
"""
