"""kubectl's names for resources."""

from __future__ import annotations

import pytest

from bridge.model.resource import ResourceName


@pytest.mark.parametrize(
    ("text", "word", "group", "readings"),
    [
        ("pods", "pods", "", ((None, None),)),
        (" Pod ", "pod", "", ((None, None),)),
        ("*", "*", "", ((None, None),)),
        ("deployments.apps", "deployments", "apps", (("apps", None),)),
        ("deployments.v1.apps", "deployments", "apps", (("apps", "v1"), ("v1.apps", None))),
        (
            "certificates.cert-manager.io",
            "certificates",
            "cert-manager.io",
            (("io", "cert-manager"), ("cert-manager.io", None)),
        ),
        ("*.v1beta1.acme.io", "*", "acme.io", (("acme.io", "v1beta1"), ("v1beta1.acme.io", None))),
    ],
)
def test_a_name_has_a_word_a_group_and_readings(
    text: str, word: str, group: str, readings: tuple[tuple[str | None, str | None], ...]
) -> None:
    name = ResourceName.parsed(text)
    assert (name.word, name.group, name.readings) == (word, group, readings)
    assert name.is_wildcard is (word == "*")


@pytest.mark.parametrize(
    ("text", "group", "plural", "may"),
    [
        ("widgets", "acme.io", "widgets", True),
        ("widgets.acme.io", "acme.io", "widgets", True),
        ("widgets.v1.acme.io", "acme.io", "widgets", True),
        ("widgets.acme.io", "other.io", "widgets", False),
        ("gadgets", "acme.io", "widgets", False),
        ("*", "acme.io", "widgets", True),
        ("*.acme.io", "acme.io", "widgets", True),
        ("*.other.io", "acme.io", "widgets", False),
    ],
)
def test_the_text_alone_shows_which_resources_it_may_mean(text: str, group: str, plural: str, may: bool) -> None:
    assert ResourceName.parsed(text).may_mean(group, plural) is may
