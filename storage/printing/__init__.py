"""Records and batches as lines: what ``cleaner.dump`` prints, at full speed.

One kernel prints both forms, in the words of the vocabulary that it is handed. The readable twins are
``cleaner.dump.text`` and ``cleaner.dump.json_lines``.
"""
