"""Rules tell what is wrong in a log dir: facts that were read go in, findings come out. No file is opened here."""
