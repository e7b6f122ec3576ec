"""Pages of HTML on disk: the check that a page can be written, its sources, and the page of the daemon's last plan."""
