"""The owners of what internal topics hold: every record is read, every distinct key decoded once.

Read-only, and without a lock: what a live broker changes meanwhile is looked at again.
"""
