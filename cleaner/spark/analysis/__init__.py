"""The figures of ``analyze``: tasks gather facts, and tables name the partitions."""
