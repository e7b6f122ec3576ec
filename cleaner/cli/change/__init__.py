"""The commands that change log directories: clean, free, restore, run."""
