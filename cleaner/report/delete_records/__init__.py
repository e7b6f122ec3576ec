"""Reports of the commands that move records into or out of a log dir: ``import`` and ``delete-records``."""
