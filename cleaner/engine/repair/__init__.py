"""Repairs: files that are made anew from a log, and a few other repairs that a person asks for by name.

``repairing`` is the entrance, and changes files. ``observing`` gathers facts; ``policies.findings.repairs`` decides.
"""
