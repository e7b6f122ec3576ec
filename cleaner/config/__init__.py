"""The configuration from files and the command line: it is read, checked and turned into layers."""
