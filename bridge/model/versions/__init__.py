"""Versions of objects.

followed_record  a record that a destination holds, read for `tail`
leading          records as they leave under the leader of a term
progress         how far a sink has come, as its destination stores it
record_forms     the record in a line or a message, in any format
stored_version   a version that a destination holds, read back for `verify`
version          order of resourceVersions
version_table    known versions of many objects in 64-byte rows
"""
