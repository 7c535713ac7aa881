"""Versions of objects.

followed_record   a record that a destination holds, read for `tail`; the record in a line or a message, in any
                  format
progress          how far a sink has come, as its destination stores it
stored_version    a version that a destination holds, read back for `verify`
version           order of resourceVersions; records as they leave under the leader of a term
version_table     known versions of many objects in 64-byte rows
"""
