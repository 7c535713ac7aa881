"""The form in which objects leave.

redact          replaces the values of a Secret by keyed digests (pure)
redaction_key   the key of these digests (pure)
transform       stripping (``model.object``) and redaction, chosen for each resource (pure)
"""
