"""Which names and texts count as credentials, and which do not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transform import credentials
from bridge.transform.credentials import (
    LARGEST_HARMLESS,
    LONGEST_TEXT,
    Harmless,
    is_secret_name,
    redacted_arguments,
    redacted_setting,
    redacted_text,
    redacted_variable,
)
from tests.kit.expressions import alternatives

SECRET = "hunter2-hunter2"
LETTERS = "0123456789abcdefABCDEF0123456789abcdefABCDEF"


def digest(*parts: str) -> str:
    return f"<{len(parts[-1])}>"


def redacted(arguments: list[str]) -> list[str]:
    """The same with an empty memory and with that of the first time."""
    harmless = Harmless[str]()
    left = redacted_arguments(arguments, digest, harmless)
    assert redacted_arguments(arguments, digest, harmless) == left
    return left


# ── An example for each alternative of each expression ───────────────────────

NAMES_OF_SECRETS = {
    "_SECRET_WORDS": """
        PGPASSWORD passphrase PASSCODE client-secret TOKEN credentials APIKEY X-Api-Key accesskey AWS_SECRET_ACCESS_KEY
        AccountKey auth_key client_key ENCRYPTION_KEY NEW_RELIC_LICENSE_KEY master_key private_key service_key
        SESSION_KEY shared_key SigningKey STORAGE_KEY ssh_key
        CONNECTIONSTRING connection_string ConnStr conn_str WEBHOOKURL webhook_url
    """,
    "_SECRET_ENDS": """
        MYSQL_PWD DB_PASS pass pw KEY key_keys REDISCLI_AUTH Authorization Proxy-Authorization COOKIE SENTRY_DSN JWT
        MY_PAT CARD_PIN myapikey mysecretkey
    """,
    "_ALWAYS": """
        VAULT_SECRET_ID SLACK_WEBHOOK_URL slackwebhookurl MONGODB_CONNECTION_STRING mongoconnectionstring dbconn_str
        dbconnstr
    """,
}

ENDS = """
file path dir directory name names ref url uri endpoint host port address ttl expiry expiration expires expires_in
lifetime duration timeout interval period seconds minutes hours days length len size count limit min max type header
headers algorithm alg issuer audience enabled disabled required policy version format prefix suffix mount namespace
provider store class server service region rotation mode hash id
"""
BEGINNINGS = "max min num total enable disable use allow require with skip generate rotate no"
KINDS_OF_KEYS = "public partition sort primary foreign routing cache object row group idempotency"
OTHERS = "PWD OLDPWD TOKENIZERS_PARALLELISM my_publickey PUBLIC_KEYS GOOGLE_APPLICATION_CREDENTIALS"
HARMLESS_NAMES = {
    "_HARMLESS_ENDS": [f"token_{end}" for end in ENDS.split()],
    "_HARMLESS": [
        *(f"{first}_token" for first in BEGINNINGS.split()),
        *(f"{first}_key" for first in KINDS_OF_KEYS.split()),
        *OTHERS.split(),
    ],
}
UNRELATED_NAMES = "PORT HOME KEYCLOAK_URL MONKEY KEYSPACE AUTH_MODE COMPASS BYPASS DATABASE_URL"
SCHEMES = "ApiKey Basic Bearer Digest HMAC JWT key Negotiate NTLM OAuth Splunk SSWS token"

PEM = "MIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC"
TEXTS: dict[str, list[tuple[str, str]]] = {
    "_ASSIGNED": [
        ("password=x1", "password=<2>"),
        ("Password: x1", "Password: <2>"),
        ('{"password":"x 1"}', '{"password":"<3>"}'),
        ("{'password' : 'x 1'}", "{'password' : '<3>'}"),
    ],
    "_FLAG": [("mysql --password x1 -h x", "mysql --password <2> -h x"), ("--password\tx1", "--password\t<2>")],
    "_OPENING": [('token="a b" c', 'token="<3>" c'), ("token='a b' c", "token='<3>' c")],
    "_UNQUOTED": [("Server=a;Password=x1;x=1", "Server=a;Password=<2>;x=1")],
    "_SCHEME": [(f"Authorization: {scheme} x1 y", f"Authorization: {scheme} <2> y") for scheme in SCHEMES.split()],
    "_OTHER_SCHEME": [("Authorization: Mine x1 y", "Authorization: <7> y")],
    "_BLANK_OR_QUOTE": [("redis://:x1@h a@b", "redis://:<2>@h a@b"), ("'redis://:x1@h'@", "'redis://:<2>@h'@")],
    "_USER": [("postgres://u:x@1@h:5432/x", "postgres://u:<3>@h:5432/x")],
    "BEGIN ": [
        (f"-----BEGIN {kind}PRIVATE KEY-----\n{PEM}\n-----END {kind}PRIVATE KEY-----", "*")
        for kind in ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "X25519 ", "ANY OTHER ")
    ]
    + [
        (f"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{PEM}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----", "*"),
        (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{PEM}\n-----END PGP PRIVATE KEY BLOCK-----", "*"),
        (f"-----BEGIN PRIVATE KEY-----\n{PEM}", "*"),
    ],
    "LS0tLS1CRUdJTi": [("LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVktLS0tLQpNSUlF", "*")],
    "eyJ": [("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "*")],
    "gh": [(f"gh{kind}_{LETTERS[:36]}", "*") for kind in "pousr"],
    "github_pat_": [(f"github_pat_{LETTERS[:22]}", "*")],
    "glpat-": [(f"glpat-{LETTERS[:20]}", "*")],
    "xox": [(f"xox{kind}-{LETTERS[:12]}", "*") for kind in "abeprs"],
    " ": [("curl with Bearer x1x1x1x1 h", "curl with Bearer <8> h")],
    ".": [("kubeadm join abcdef.0123456789abcdef h:6443", "kubeadm join <23> h:6443")],
}
"""By the name of the expression, or by the hint of the form: a text, and what is left of it; ``*`` for a digest of all
of it, in any text around it."""

VALUES = {
    "_REFERENCE": ["$(DB_PASSWORD)", "$(A)$(B)"],
    "_SHELL_REFERENCE": ["$(A)$(B)", "$(cat /run/token)", "${TOKEN}", "$TOKEN"],
}
"""References, which stay."""

ARGUMENTS: dict[str, list[tuple[list[str], list[str]]]] = {
    "_WHOLE_FLAG": [(["--password", "a b"], ["--password", "<3>"]), (["-token", "x1"], ["-token", "<2>"])],
    "_WHOLE_ASSIGNMENT": [(["--token=a b;c"], ["--token=<5>"]), (["-e", "PASSWORD=a b"], ["-e", "PASSWORD=<3>"])],
    "_SHELL_ASSIGNMENT": [(["PASSWORD=x1 run --v=2"], ["PASSWORD=<2> run --v=2"])],
    "_BEFORE_SCRIPT": [(["sh", "-ec", "PASSWORD=x1 run -x"], ["sh", "-ec", "PASSWORD=<2> run -x"])],
}

EXAMPLES: dict[str, list[str]] = {
    **{name: words.lower().replace("-", "_").split() for name, words in NAMES_OF_SECRETS.items()},
    **{name: [each.lower() for each in words] for name, words in HARMLESS_NAMES.items()},
    **{name: [text for text, _ in pairs] for name, pairs in TEXTS.items()},
    **VALUES,
    **{name: [each for given, _ in pairs for each in given] for name, pairs in ARGUMENTS.items()},
    "_BETWEEN_WORDS": ["-"],
}


def expressions() -> dict[str, re.Pattern[str]]:
    named = {name: value for name, value in vars(credentials).items() if isinstance(value, re.Pattern)}
    return named | dict(credentials._FORMS)


def test_each_alternative_of_each_expression_has_an_example() -> None:
    """A new alternative without a line in the tables above fails here."""
    assert {name for name in vars(credentials) if isinstance(getattr(credentials, name), tuple)} == {"_FORMS"}
    assert EXAMPLES.keys() == expressions().keys()
    missing = [
        f"{name} {place}"
        for name, pattern in expressions().items()
        for place, alternative in [("", pattern), *alternatives(pattern)]
        if not any(alternative.search(text) for text in EXAMPLES[name])
    ]
    assert missing == []


@pytest.mark.parametrize("name", [name for words in NAMES_OF_SECRETS.values() for name in words.split()])
def test_names_of_credentials_are_known(name: str) -> None:
    assert is_secret_name(name)
    assert redacted_variable(name, SECRET, digest) == "<15>"


@pytest.mark.parametrize(
    "name", [*(name for names in HARMLESS_NAMES.values() for name in names), *UNRELATED_NAMES.split()]
)
def test_other_names_stay(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(("text", "left"), [pair for pairs in TEXTS.values() for pair in pairs if pair[1] != "*"])
def test_of_a_text_only_the_credential_goes(text: str, left: str) -> None:
    assert redacted_text(text, digest) == left


@pytest.mark.parametrize("form", [text for pairs in TEXTS.values() for text, left in pairs if left == "*"])
def test_a_credential_is_known_by_its_form_anywhere(form: str) -> None:
    whole = f"<{len(form)}>"

    assert redacted_text(form, digest) == whole
    assert redacted_text(f"run {form}", digest) == f"run {whole}"
    assert redacted_variable("SETTING", form, digest) == whole
    assert redacted(["sh", "-c", form]) == ["sh", "-c", whole]
    if "BEGIN" not in form or "END" in form:
        assert redacted_text(f'x "{form}" y', digest) == f'x "{whole}" y'
    escaped = form.replace("\n", "\\n")
    assert redacted_text(escaped, digest) == f"<{len(escaped)}>"


@pytest.mark.parametrize(("given", "left"), [pair for pairs in ARGUMENTS.values() for pair in pairs])
def test_of_arguments_only_the_credential_goes(given: list[str], left: list[str]) -> None:
    assert redacted(given) == left


@pytest.mark.parametrize("value", VALUES["_SHELL_REFERENCE"])
def test_a_reference_in_an_argument_stays(value: str) -> None:
    for words in (["--password", value], [f"--password={value}"], [f"run --password {value}"], [f"a=b token={value}"]):
        assert redacted(words) == words


@pytest.mark.parametrize("value", VALUES["_REFERENCE"])
def test_a_reference_in_a_variable_stays(value: str) -> None:
    assert redacted_variable("DB_PASSWORD", value, digest) == value


# ── Further texts ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"--set=auth.password={SECRET}", "--set=auth.password=<15>"),
        (f'curl -H "Authorization: Bearer {SECRET}"', 'curl -H "Authorization: Bearer <15>"'),
        (f'{{"Authorization":"Basic {SECRET}","a":1}}', '{"Authorization":"Basic <15>","a":1}'),
        (f"curl -H Authorization:{SECRET} http://h", "curl -H Authorization:<15> http://h"),
        (f"--password=$(USER){SECRET}", "--password=<22>"),
        (f"--password=$(get --token {SECRET})", "--password=$(get --token <16>"),
        (f"amqp://a:{SECRET}@h1,amqp://b:{SECRET}@h2", "amqp://a:<15>@h1,amqp://b:<15>@h2"),
        (f"https://u:{'x' * 1000}@h", "https://u:<1000>@h"),
        ("token abcdef.0123456789abcdef.", "token <23>."),
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
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "-----BEGIN RSA PUBLIC KEY-----\nMIIE\n-----END RSA PUBLIC KEY-----",
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUVwQUlC",
        "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUlJQklqQU5C",
    ],
)
def test_a_text_without_credentials_stays(text: str) -> None:
    assert redacted_text(text, digest) == text


def test_a_flag_may_have_its_value_in_the_next_argument() -> None:
    given = ["--password", SECRET, "--token=a b;c", "-v", "--token", "--x", "--secret-name", "foo", "--key", "$(KEY)"]

    left = redacted(given)

    assert left == ["--password", "<15>", "--token=<5>", *given[3:]]


@pytest.mark.parametrize("given", [["--password", "$(get --token x1)"], ["--password=$(get --token x1)"]])
def test_a_command_in_place_of_a_value_is_searched(given: list[str]) -> None:
    assert "x1" not in " ".join(redacted(given))


def test_a_setting_is_a_variable_with_all_its_blanks() -> None:
    assert redacted_setting("PASSWORD=a b", digest) == "PASSWORD=<3>"
    assert redacted_setting("URL=redis://:a@h", digest) == "URL=redis://:<1>@h"
    assert redacted_setting("redis://:a@h", digest) == "redis://:<1>@h"


def test_a_text_too_long_to_judge_is_redacted_whole() -> None:
    assert redacted_text("a" * (LONGEST_TEXT + 1), digest) == f"<{LONGEST_TEXT + 1}>"


def test_only_short_names_are_remembered() -> None:
    credentials._remembered.cache_clear()

    assert is_secret_name("x" * 1_000_000 + "_password")
    assert not is_secret_name("x" * 1_000_000)

    assert credentials._remembered.cache_info().currsize == 0


def test_harmless_texts_are_remembered_within_a_bound() -> None:
    harmless, most = Harmless[str](), 0
    for number in range(2_000):
        harmless.remember(f"{number:04}".ljust(4_000))
        harmless.remember(f"{number:04}".ljust(4_000))
        most = max(most, sum(map(len, harmless)))

    assert LARGEST_HARMLESS / 2 < most <= LARGEST_HARMLESS
    assert "1999".ljust(4_000) in harmless


@given(st.text(max_size=40), st.sampled_from(["PASSWORD=", "--token=", "--api-key "]), st.text("abc123", min_size=8))
def test_a_named_secret_never_stays_in_an_argument(before: str, name: str, secret: str) -> None:
    *_, left = redacted([before + " " + name + secret])

    assert name + secret not in left
