"""Versions of objects.

followed_record   a record that a destination holds, in any format, read for `tail`
progress          how far a sink has come, as its destination stores it
stored_version    a version that a destination holds, read back for `verify`
version           order of resourceVersions, and records with the numbers of a leader's term
version_table     known versions of many objects in 64-byte rows
"""
