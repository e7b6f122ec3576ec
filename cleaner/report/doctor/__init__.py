"""The report of ``doctor``: text for people, a document for machines, from the same findings."""
