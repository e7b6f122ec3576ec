"""The documents that ``--json`` prints, as types: a module for each one, and the JSON Schemas that are made of them.

A command loads nothing from here when it runs: the types are for mypy, which holds the reports to them, and for
``schemas``. The text below a key is the description of the key. Sizes are in bytes, times in epoch ms.
"""
