"""Versions of objects.

stored_version   a version that a destination holds, read back for `verify`
version          order of resourceVersions
version_table    known versions of many objects in 64-byte rows
"""
