"""Traces of batches, in the words of OpenTelemetry. A bridge that is not traced never imports this room.

export   sends spans to a collector, on a thread of its own
hooks    replaces the functions whose times are spans
traces   remembers the traced batches, by the sequence numbers of their records
"""
