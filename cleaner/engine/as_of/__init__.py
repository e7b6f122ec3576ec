"""A moment's log dir: logs are read (``reading``), cut (``deciding``) and copied (``copying``)."""
