"""Traces of batches, in the words of OpenTelemetry. A bridge that is not traced never imports this room.

export   sends spans to a collector, on a thread of its own
hooks    makes spans of the times of a batch at the functions of its stages
"""
