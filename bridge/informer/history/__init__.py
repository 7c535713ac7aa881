"""Proves that an API server still has the known history, and that no backup was restored.

history         proves the history once for all informers of an API server
member          the part of an informer that its history uses
member_history  the history as one informer asks for it
outcomes        the outcomes of a proof
proof           the conclusion from an answer about the history (pure)
prover          chooses the members that are asked
questions       the requests to the server of one member
"""
