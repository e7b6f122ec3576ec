"""Reports of what was looked for in the files of log dirs: an offset, a timestamp, a key."""
