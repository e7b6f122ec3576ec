"""Reports of what moves records into a log dir, or out of one: ``delete-records`` and ``import``."""
