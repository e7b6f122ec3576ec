"""Records and batches as lines of text or of JSON: what ``cleaner.dump`` and ``cleaner.export`` print, at full speed.

Their readable twins are ``cleaner.dump.text`` and ``cleaner.dump.json_lines``.
"""
