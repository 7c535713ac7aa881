"""Encodings of records, and what a stored record is about.

cloudevent     CloudEvents 1.0, binary and structured; objects alone, data that an expression makes, data of notices
content        data and texts that the expressions of a sink make of an object, and its field managers
definitions    named JSON Schemas that others refer to
envelope       Debezium's change event envelope
object_paths   subject and partition key of an object
row            flat rows for tables
stored_record  what a stored record is about, in any format: for `verify` and `tail`
"""
