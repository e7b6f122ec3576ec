"""Damage of every kind to every file of a log dir. The heavy form: ``python -m tests.fuzz --minutes 10``."""
