"""Show reports on a terminal: as much as the user wants, in the order asked for, through a pager."""
