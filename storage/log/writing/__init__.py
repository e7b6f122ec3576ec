"""Writing: the checks of an append, the bytes that its batches become, and the state of the producers."""
