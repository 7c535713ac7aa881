"""Which names and texts count as credentials, and which do not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transform.credentials import LONGEST_TEXT, is_secret_name, redacted_arguments, redacted_text

SECRET = "hunter2-hunter2"

SECRETS = """
PASSWORD DB_PASSWORD PGPASSWORD dbPassword spring.datasource.password API_KEY APIKEY AWS_SECRET_ACCESS_KEY
TOKEN GITHUB_TOKEN SSH_KEY KEY MYSQL_PWD DB_PASS REDISCLI_AUTH SENTRY_DSN SLACK_WEBHOOK_URL VAULT_SECRET_ID
NEW_RELIC_LICENSE_KEY MONGODB_CONNECTION_STRING X-Api-Key --client-secret
"""

OTHERS = """
PORT HOME PWD OLDPWD PASSWORD_FILE TOKEN_TTL TOKEN_URL SECRET_NAME MAX_TOKENS TOKENIZERS_PARALLELISM
KEYCLOAK_URL PUBLIC_KEY AWS_ACCESS_KEY_ID MONKEY KEYSPACE AUTH_MODE COMPASS BYPASS PARTITION_KEY
GOOGLE_APPLICATION_CREDENTIALS --enable-bootstrap-token-auth DATABASE_URL
"""


def digest(*parts: str) -> str:
    return f"<{len(parts[-1])}>"


@pytest.mark.parametrize(
    "name",
    SECRETS.split(),
)
def test_names_of_credentials_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    OTHERS.split(),
)
def test_names_that_only_look_like_credentials_stay(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"postgres://u:{SECRET}@h:5432/x", "postgres://u:<15>@h:5432/x"),
        (f"redis://:{SECRET}@h", "redis://:<15>@h"),
        (f"Server=a;Password={SECRET};x=1", "Server=a;Password=<15>;x=1"),
        (f"--set=auth.password={SECRET}", "--set=auth.password=<15>"),
        (f"mysql --password {SECRET} -h x", "mysql --password <15> -h x"),
        (f'{{"password":"{SECRET} b","a":1}}', '{"password":"<17>","a":1}'),
        (f'curl -H "Authorization: Bearer {SECRET}"', 'curl -H "Authorization: <22>"'),
        ("join --token abcdef.0123456789abcdef h:6443", "join --token <23> h:6443"),
        ("x abcdef.0123456789abcdef y", "x <23> y"),
        ("glpat-" + "a" * 20, "<26>"),
    ],
)
def test_credentials_in_a_text_are_replaced(text: str, left: str) -> None:
    assert redacted_text(text, digest) == left


@pytest.mark.parametrize(
    "text",
    [
        "postgres://orders@orders-db.shop.svc:5432/orders?sslmode=verify-full",
        "http://h:8080/p?e=x@y",
        "--password=$(DB_PASSWORD)",
        "--password $PGPASSWORD",
        "--token-file /run/token",
        "--discovery-token-ca-cert-hash sha256:1234",
        "PASSWORD=",
        "say password and token",
    ],
)
def test_a_text_without_credentials_stays(text: str) -> None:
    assert redacted_text(text, digest) == text


def test_a_flag_may_have_its_value_in_the_next_argument() -> None:
    given = ["--password", SECRET, "--token=a b;c", "-v", "--token", "--x", "--secret-name", "foo", "--key", "$(KEY)"]

    left = redacted_arguments(given, digest)

    assert left == [
        "--password",
        "<15>",
        "--token=<5>",
        "-v",
        "--token",
        "--x",
        "--secret-name",
        "foo",
        "--key",
        "$(KEY)",
    ]


def test_a_text_too_long_to_judge_is_redacted_whole() -> None:
    assert redacted_text("a" * (LONGEST_TEXT + 1), digest) == f"<{LONGEST_TEXT + 1}>"


_PIECES = ("a", " ", "://a:", "password=", "--a ", "authorization:", '\\"', "password:'", "-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("piece", [*_PIECES, "eyJ", "aaaaaa.", 'password="', "bearer ", "secret: ", "'"])
def test_a_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    """Twice the text takes about twice the time; a search that backtracks takes four times, and far more."""

    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        began = time.process_time()
        redacted_text(text, digest)
        return time.process_time() - began

    half, whole = (min(seconds(size) for _ in range(3)) for size in (LONGEST_TEXT // 8, LONGEST_TEXT))
    assert whole < 24 * half + 0.05


@given(st.text(max_size=40), st.sampled_from(["PASSWORD=", "--token=", "--api-key "]), st.text("abc123", min_size=8))
def test_a_named_secret_never_stays_in_an_argument(before: str, name: str, secret: str) -> None:
    *_, left = redacted_arguments([before + " " + name + secret], digest)

    assert name + secret not in left
