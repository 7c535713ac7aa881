"""An entry that names no watched resource is a mistake, unless its resource may still be served."""

from __future__ import annotations

import pytest

from bridge.views.selection import Selector, find_unwatched
from tests.bridge.views.compiled import DEPLOYMENTS, NODES, PODS

WATCHED = (PODS, DEPLOYMENTS, NODES)


@pytest.mark.parametrize("name", ["pods", "deployments.apps", "*", "*.apps"])
def test_watched_names_are_fine(name: str) -> None:
    assert find_unwatched(Selector(resource=name), WATCHED, ()) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pod", 'pod is not watched; did you mean "pods"?'),
        ("deployment", 'deployment is not watched; did you mean "deployments.apps"?'),
        ("deployments.app", 'deployments.app is not watched; did you mean "deployments.apps"?'),
        ("secrets", "secrets is not watched; see the list resources"),
        ("*.batch", "*.batch is not watched; see the list resources"),
    ],
)
def test_other_names_are_mistakes(name: str, message: str) -> None:
    found = find_unwatched(Selector(resource=name), WATCHED, ())

    assert found is not None
    assert found.is_mistake
    assert str(found) == message


@pytest.mark.parametrize(
    ("name", "configured"),
    [
        ("certificates.cert-manager.io", "certificates.cert-manager.io"),
        ("certificates.cert-manager.io", "certificates.v1.cert-manager.io"),
        ("certificates.cert-manager.io", "*.cert-manager.io"),
        ("*.cert-manager.io", "certificates.cert-manager.io"),
        ("certificates", "certificates.cert-manager.io"),
    ],
)
def test_a_resource_that_is_not_served_yet_is_no_mistake(name: str, configured: str) -> None:
    found = find_unwatched(Selector(resource=name), WATCHED, (configured,))

    assert found is not None
    assert not found.is_mistake
    assert str(found) == f"{name} is not served yet"


def test_under_a_wildcard_any_name_may_still_come() -> None:
    found = find_unwatched(Selector(resource="pod"), WATCHED, ("*",))

    assert found is not None
    assert not found.is_mistake
    assert str(found) == 'pod is not served yet; did you mean "pods"?'
