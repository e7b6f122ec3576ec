"""The kernel that checks and stamps a batch on its way into a log (``storage.log.writing``)."""
