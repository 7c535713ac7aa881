"""Encodings of records.

cloudevent     CloudEvents 1.0, binary and structured (hot)
envelope       Debezium's change event envelope
row            flat rows for tables
content        data and texts that the expressions of a sink make of an object
managers       the field managers of an object, and of a step
made           the data that an expression makes
raw            objects without an event around them
structured     CloudEvents as JSON objects
schema         JSON Schemas of events
definitions    named JSON Schemas that others refer to
notice         the data of notices
object_paths   subject and partition key of an object (hot)
"""
