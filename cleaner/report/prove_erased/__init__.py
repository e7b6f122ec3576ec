"""Reports of searches in the files of log dirs: for an offset, a timestamp, a key."""
