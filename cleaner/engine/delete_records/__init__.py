"""Moves the start of a log: ``delete-records``. ``deleting`` plans and acts, ``counting`` counts what goes.

Nouns: what is *asked* for is an offset or a time (``policies.record_deletion.Before``). A *deletion of records* is the
decision on one partition. Its *undo* is in the journal, and ``engine/restore`` takes it back.
"""
