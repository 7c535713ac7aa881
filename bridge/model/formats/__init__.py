"""Encodings of records.

cloudevent     CloudEvents 1.0, binary and structured (hot)
envelope       Debezium's change event envelope
object_paths   subject and partition key of an object (hot)
"""
