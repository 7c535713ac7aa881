"""Recovers the steps that a lost watch did not announce, from the API server's history.

allowance    the bounds of the requests of a list
answers      the meaning of an answer (pure)
chosen       the objects to be walked back, and their steps as deltas (pure)
exact_lists  the requests
recovery     the recovery of an informer
samples      the versions to look at for objects that came and went (pure)
walk         the way of an object back to its known version (pure)
"""
