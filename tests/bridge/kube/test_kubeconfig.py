from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridge.kube import CredentialsError
from bridge.kube.auth.kubeconfig import ChosenContext, Exec, default_paths, load

CONFIG = """
apiVersion: v1
kind: Config
current-context: prod
clusters:
- name: c-prod
  cluster: {server: "https://prod.example.test:6443", certificate-authority: pki/ca.crt}
- name: c-test
  cluster: {server: "https://test.example.test:6443", insecure-skip-tls-verify: true, tls-server-name: api}
users:
- name: alice
  user: {client-certificate: pki/alice.crt, client-key: /abs/alice.key, tokenFile: ../token}
- name: bob
  user: {token: 1e5}
contexts:
- name: prod
  context: {cluster: c-prod, user: alice, namespace: shop}
- name: test
  context: {cluster: c-test, user: bob}
- name: nobody
  context: {cluster: c-test}
- name: lost
  context: {cluster: gone, user: bob}
- name: strange
  context: {cluster: c-test, user: gone}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write(tmp_path / "a" / "config", CONFIG)


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def choose(*paths: Path, context: str | None = None) -> ChosenContext:
    return load(paths).choose(context)


def test_the_current_context_is_chosen_and_another_by_name(config: Path) -> None:
    assert choose(config).cluster.server == "https://prod.example.test:6443"
    other = choose(config, context="test")
    assert other.cluster.server == "https://test.example.test:6443"
    assert other.cluster.insecure_skip_tls_verify
    assert other.cluster.tls_server_name == "api"
    assert other.origin == f"{config}: context test"


def test_paths_are_relative_to_the_file_that_names_them(config: Path) -> None:
    chosen = choose(config)
    assert chosen.cluster.certificate_authority == str(config.parent / "pki/ca.crt")
    assert chosen.user.client_certificate == str(config.parent / "pki/alice.crt")
    assert chosen.user.client_key == "/abs/alice.key"
    assert chosen.user.token_file == str(config.parent / "../token")


@pytest.mark.parametrize(("command", "located"), [("aws", "aws"), ("./bin/login", "bin/login"), ("/bin/x", "/bin/x")])
def test_a_plugin_path_with_a_folder_is_relative_to_the_file(tmp_path: Path, command: str, located: str) -> None:
    path = write(tmp_path / "config", f"users: [{{name: u, user: {{exec: {{command: {command}}}}}}}]")
    plugin = load([path]).users["u"].exec
    assert plugin == Exec(located if command == "aws" else str(tmp_path / located))


def test_a_token_that_looks_like_a_number_stays_as_it_is_written(config: Path) -> None:
    assert choose(config, context="test").user.token == "1e5"


def test_names_that_yaml_reads_as_other_types_stay_names(tmp_path: Path) -> None:
    path = write(
        tmp_path / "config",
        "current-context: 0755\n"
        "clusters: [{name: on, cluster: {server: 'http://x', certificate-authority: null}}]\n"
        "contexts: [{name: 0755, context: {cluster: on, user: 2026-01-01}}]\n"
        "users: [{name: 2026-01-01, user: {token: yes, exec: null}}]\n",
    )
    assert choose(path).user.token == "yes"


def test_a_context_without_a_user_is_nobody(config: Path) -> None:
    assert choose(config, context="nobody").user.token is None


# ── Several files ────────────────────────────────────────────────────────────


def test_of_several_files_the_first_to_name_something_wins(tmp_path: Path, config: Path) -> None:
    first = write(
        tmp_path / "first" / "config",
        "users: [{name: bob, user: {username: robert, tokenFile: token}}]\n"
        "contexts: [{name: mine, context: {cluster: c-prod, user: bob}}]\n",
    )
    chosen = choose(first, config, context="mine")
    assert chosen.cluster.server == "https://prod.example.test:6443"
    assert (chosen.user.username, chosen.user.token) == ("robert", None)  # Nothing of the second file's bob.
    assert chosen.user.token_file == str(first.parent / "token")
    assert chosen.cluster.certificate_authority == str(config.parent / "pki/ca.crt")


def test_the_first_file_with_a_current_context_decides(tmp_path: Path, config: Path) -> None:
    """Missing and empty files say nothing."""
    gone, empty = tmp_path / "gone", write(tmp_path / "empty", "")
    first = write(tmp_path / "first", 'current-context: ""')
    second = write(tmp_path / "second", "current-context: test")
    kubeconfig = load([gone, empty, first, second, config])
    assert kubeconfig.files == (empty, first, second, config)
    assert kubeconfig.choose(None).cluster.tls_server_name == "api"


def test_kubeconfig_names_several_files_and_each_once() -> None:
    named = os.pathsep.join(["/a", "", "/b", "/a"])
    assert default_paths({"KUBECONFIG": named, "HOME": "/home/me"}) == [Path("/a"), Path("/b")]
    assert default_paths({"KUBECONFIG": "", "HOME": "/home/me"}) == [Path("/home/me/.kube/config")]


# ── What cannot be used ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("context", "complaint"),
    [
        ("prd", "there is no context 'prd'; there is lost, nobody, prod, strange, test"),
        ("lost", "context lost: there is no cluster 'gone'; there is c-prod, c-test"),
        ("strange", "context strange: there is no user 'gone'; there is alice, bob"),
    ],
)
def test_an_unknown_name_is_answered_with_the_existing_ones(config: Path, context: str, complaint: str) -> None:
    with pytest.raises(CredentialsError) as raised:
        choose(config, context=context)
    assert str(raised.value) == f"{config}: {complaint}"


def test_without_a_current_context_the_choice_is_the_operators(tmp_path: Path) -> None:
    path = write(tmp_path / "config", CONFIG.replace("current-context: prod", ""))
    with pytest.raises(CredentialsError, match=r"choose one of lost, nobody, prod, strange, test as cluster\.context"):
        choose(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("users:\n- name: a\n  user: {token: hunter2\n", "the kubeconfig is not YAML at line 4"),
        ("users:\n- name: a\n  user: {token: !!int hunter2}\n", "the kubeconfig is not YAML at line 3"),
        ("users:\n- name: a\n  user: {token: !!timestamp hunter2}\n", "the kubeconfig is not YAML at line 3"),
        pytest.param("users: " + "[" * 5000, "the kubeconfig has more than 64 levels at line 1", id="brackets"),
        pytest.param("users:\n  " + "- " * 5000, "the kubeconfig has more than 64 levels at line 2", id="dashes"),
        ("a: &a [x]\nb: [*a, *a]\n", "the kubeconfig has an alias (*name), which is not supported, at line 2"),
        pytest.param("#" * (17 << 20), "the file is larger than 16 MiB: is this a kubeconfig?", id="huge"),
        ("users: hunter2", "the kubeconfig cannot be used: Expected `array | null`, got `str` - at `$.users`"),
        ("hunter2", "the kubeconfig cannot be used: Expected `object`, got `str`"),
        (
            "users: [{name: a, user: {token: [hunter2]}}]",
            "the kubeconfig cannot be used: Expected `str | null`, got `array` - at `$.users[0].user.token`",
        ),
        ("users: [{name: a}, {name: b}, {name: a}]", "users has more than one a"),
    ],
)
def test_a_broken_file_is_named_with_the_line_without_content(tmp_path: Path, content: str, complaint: str) -> None:
    path = write(tmp_path / "config", content)
    with pytest.raises(CredentialsError) as raised:
        load([path])
    assert str(raised.value) == f"{path}: {complaint}"


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as raised:
        load([tmp_path])
    assert str(raised.value) == f"{tmp_path}: the kubeconfig cannot be read: Is a directory"


def test_a_user_is_never_printed(config: Path) -> None:
    kubeconfig = load([config])
    assert "1e5" not in repr(kubeconfig) + repr(kubeconfig.choose("test")) + repr(kubeconfig.users)
