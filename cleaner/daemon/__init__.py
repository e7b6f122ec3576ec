"""The daemon: what is due, done turn after turn.

Nouns: the *worker* does one job at a time; the *schedule* says what is due; a *turn* lasts from the taking of the locks
to their release; the *child* is the process that compacts.

Who listens to whom: a *listener* hears what the engine does (the log of events, the pipe of the child, the progress of
a job); an *observer* hears what the daemon did, as values (metrics, health checks); the *pulse* goes between worker and
main thread, which tells systemd.
"""
