"""Repairs: what is made anew of a log, and the few other things that are mended when somebody asks by name.

``repairing`` is the entrance, and changes files. ``observing`` gathers facts; ``policies.findings.repairs`` decides.
"""
