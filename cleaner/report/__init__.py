"""The reports of the commands. Each has a form for people (``text``) and one for machines (``document``)."""
