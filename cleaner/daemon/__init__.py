"""The daemon: what is due, done round after round.

Nouns: the *worker* does one job at a time; the *schedule* says what is due; a *turn* lasts from the taking of the locks
to their release; the *child* is the process that compacts; an *observer* hears what the daemon did.
"""
