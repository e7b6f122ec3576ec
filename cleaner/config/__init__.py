"""The configuration as files state it: read, checked, and turned into layers."""
