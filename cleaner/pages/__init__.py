"""Pages of HTML on disk: whether one can be written, what it was made of, and the daemon's last plan as one."""
