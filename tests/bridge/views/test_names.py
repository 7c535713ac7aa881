"""An entry that names no watched resource is a mistake, unless its resource may still be served."""

from __future__ import annotations

import pytest

from bridge.views.selection import Selector, find_unwatched
from tests.bridge.views.compiled import DEPLOYMENTS, NODES, PODS

WATCHED = (PODS, DEPLOYMENTS, NODES)


@pytest.mark.parametrize(
    ("name", "configured", "message"),
    [
        *((name, "", "None") for name in ("pods", "deployments.apps", "*", "*.apps")),
        ("pod", "", 'pod is not watched; did you mean "pods"?'),
        ("deployment", "", 'deployment is not watched; did you mean "deployments.apps"?'),
        ("deployments.app", "", 'deployments.app is not watched; did you mean "deployments.apps"?'),
        ("secrets", "", "secrets is not watched; see the list resources"),
        ("*.batch", "", "*.batch is not watched; see the list resources"),
        ("certificates.acme.io", "certificates.acme.io", "certificates.acme.io is not served yet"),
        ("certificates.acme.io", "certificates.v1.acme.io", "certificates.acme.io is not served yet"),
        ("certificates.acme.io", "*.acme.io", "certificates.acme.io is not served yet"),
        ("*.acme.io", "certificates.acme.io", "*.acme.io is not served yet"),
        ("certificates", "certificates.acme.io", "certificates is not served yet"),
        ("pod", "*", 'pod is not served yet; did you mean "pods"?'),
    ],
)
def test_a_name_that_is_neither_watched_nor_to_come_is_a_mistake(name: str, configured: str, message: str) -> None:
    found = find_unwatched(Selector(resource=name), WATCHED, (configured,) if configured else ())

    assert str(found) == message
    assert found is None or found.is_mistake is ("not watched" in message)
