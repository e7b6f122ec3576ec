"""Renderers of forecasts: how long a disk lasts, what a later run does, what a run with other values does."""
