"""Encryption of objects' content at rest.

cipher        frames of AES-256-GCM, and the places that they are bound to
key           a key of the operator, and its id
key_registry  the keys of a database, and the bytes under each
letter        the content of a dead letter
renewal       moves the content of older records to the first key
"""
