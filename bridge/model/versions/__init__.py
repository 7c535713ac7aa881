"""Versions of objects.

followed_record  a record that a destination holds, read for `tail`
stored_version   a version that a destination holds, read back for `verify`
version          order of resourceVersions
version_table    known versions of many objects in 64-byte rows
"""
