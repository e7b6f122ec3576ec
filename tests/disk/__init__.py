"""A disk that forgets, below the program: a FUSE file system that records, and a model of what a cut of power keeps."""
