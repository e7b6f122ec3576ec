"""The values of a run that its page shows and its plan alone does not say: ``report`` of ``logcleaner.plan/1``.

Nouns: ``Overview`` (all of them), ``Provenance`` (who made a report, of which configuration).
"""
