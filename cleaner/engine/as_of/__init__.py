"""A copy of a log dir as of a moment: logs are read (``reading``), cut (``deciding``) and copied (``copying``)."""
