"""The form in which objects leave.

redact          replaces the values of a Secret by keyed digests (pure)
redaction_key   the key of these digests (pure)
strip           removes members by splicing bytes (pure, hot)
transform       both, chosen for each resource (pure)
"""
