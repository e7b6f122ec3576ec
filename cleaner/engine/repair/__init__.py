"""Repairs: what is made anew of a log, and the few other things that are mended when somebody asks by name.

``repairing`` is the entrance. ``observing`` gathers facts, ``policies.findings.repairs`` decides, ``mending``
changes files.
"""
