"""The commands that set something up: demo, systemd, completion."""
