"""Renderers of the same two values, plan and outcome: for people (``text``), for machines (``document``)."""
