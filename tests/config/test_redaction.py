"""Rules of redaction, as the file writes them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.model.policies import RedactionMode, RedactionPreset
from bridge.model.primitives.field_path import FieldPath
from config.schema.resources import RedactEntry, RedactionSettings, RedactRuleSettings, rules_of

ENTRY: TypeAdapter[RedactRuleSettings] = TypeAdapter(RedactEntry)


def test_a_path_alone_means_digests() -> None:
    (rule,) = rules_of([ENTRY.validate_python("spec.password")])

    assert rule.paths == (FieldPath(("spec", "password")),)
    assert rule.mode is RedactionMode.HMAC


def test_every_preset_is_on_by_default() -> None:
    assert set(RedactionSettings().presets) == set(RedactionPreset)
    assert RedactionSettings.model_validate({"presets": []}).presets == ()


@pytest.mark.parametrize(
    "path", ["kind", "*", "metadata", "metadata.*", "metadata.name", "*.uid", "metadata['namespace']", "apiVersion.x"]
)
def test_an_objects_identity_cannot_be_redacted(path: str) -> None:
    with pytest.raises(ValidationError, match="by which consumers know the object"):
        ENTRY.validate_python(path)


@pytest.mark.parametrize("path", ["", "spec.", "spec[0]", "$.spec", "metadata.annotations.a/b", "a" * 1025])
def test_other_texts_are_no_paths_of_a_rule(path: str) -> None:
    with pytest.raises(ValidationError, match="a path is expected"):
        ENTRY.validate_python(path)


@pytest.mark.parametrize("entry", [{"paths": []}, {"paths": ["a"], "mode": "hash"}, {"paths": ["a"], "x": 1}, 5])
def test_a_rule_has_paths_and_a_known_mode(entry: object) -> None:
    with pytest.raises(ValidationError):
        ENTRY.validate_python(entry)
