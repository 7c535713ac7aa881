"""Encodings of records.

cloudevent     CloudEvents 1.0, binary and structured (hot); CloudEvents as JSON objects
content        data and texts that the expressions of a sink make of an object
definitions    named JSON Schemas that others refer to
envelope       Debezium's change event envelope
managers       the field managers of an object, and of a step
notice         the data of notices
object_paths   subject and partition key of an object (hot)
raw            objects without an event around them; the data that an expression makes
row            flat rows for tables
schema         JSON Schemas of events
"""
