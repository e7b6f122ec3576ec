"""The engine: facts from log dirs, plans carried out. It knows no terminal, no service and no Spark.

Nouns: the *inventory* makes facts; the *executor* carries a plan out under the lock, a *rehearsal* only counts what
that would do; the *journal* tells what was changed; *leftovers* are files renamed to ``.deleted`` that wait for their
delay.
"""
