"""Pages of HTML on disk: whether a page can be written, what it was made of, and the page of the daemon's last plan."""
