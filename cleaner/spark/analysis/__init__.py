"""The figures of ``analyze``: tasks gather facts, tables name them."""
