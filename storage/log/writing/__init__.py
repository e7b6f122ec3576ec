"""Writing: what an append is checked for, what becomes of its batches, and what the producers say to it."""
