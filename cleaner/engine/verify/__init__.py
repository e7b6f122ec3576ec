"""Check log dirs: read what is there, and tell what is wrong. Nothing is changed, no lock is taken.

``checking.check_log_dirs`` is the entrance. It hands observations of ``storage.scan`` to the rules of
``policies.findings``.
"""
