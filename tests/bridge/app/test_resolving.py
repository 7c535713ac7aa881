"""What configured names mean."""

from __future__ import annotations

import pytest

from bridge.app.plan import Wanted
from bridge.app.resolving import wanted_scopes
from bridge.model.resource import Resource, Scope


@pytest.mark.parametrize("plural", ["../../../api/v1/secrets", "..", "Widgets"])
def test_a_resource_that_is_remembered_under_a_name_that_is_none_is_not_wanted_any_more(plural: str) -> None:
    everything = [Wanted("*")]

    assert wanted_scopes(everything, Resource("example.com", "v1", "widgets", "Widget", True)) == (Scope(),)
    assert wanted_scopes(everything, Resource("example.com", "v1", plural, "Widget", True)) == ()
