"""Options of a Kafka sink that are mappings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from config.rules import AnyOf, Condition, Given, HasName, Is, Not, Rule, needs, together
from config.values import HOST, PORT, Count, Matching, Names
from sinks.kafka.option_types import SaslMechanism, SecurityProtocol

_TOKEN_URL = Matching(
    rf"https?://{HOST}(?::{PORT})?(?:[/?][^\x00-\x20\x7f#]*)?",
    "a URL that begins with https:// or http:// and names a host is needed, without user and password",
)
_TEXT = Matching(r"[\x20-\x7e]+", "printable ASCII is expected", longest=1024)
_SCOPE = Matching(r"[\x21\x23-\x5b\x5d-\x7e]+", "a scope is one word of printable ASCII without quotes", longest=1024)
_EXTENSION = Matching(
    r"(?!auth$)[A-Za-z]+", lambda name: f"{name!r} is no name of an extension: letters, and not auth", longest=128
)
_EXTENSION_VALUE = Matching(
    r"[\x21-\x2b\x2d-\x7e]+", "printable ASCII without spaces and commas is expected", longest=1024
)

Extensions: TypeAlias = Annotated[dict[str, Annotated[str, _EXTENSION_VALUE]], Names(_EXTENSION)]


class CreateTopics(BaseModel):
    """How the sink creates a missing topic. An existing topic is not changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partitions: Count = Field(
        ge=1,
        le=10_000,
        description="Partitions of each topic. Choose well: when the number is changed later, keys go to other"
        " partitions, and the order of their earlier and later records is lost.",
    )
    replication_factor: Count = Field(default=-1, ge=-1, le=100, description="-1 for the default of the brokers.")


class TokenEndpointOptions(BaseModel):
    """The client credentials grant of OAuth 2.0, as OpenID Connect has it: the access token is a JWT."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    token_url: Annotated[str, _TOKEN_URL] = Field(
        description="The URL of the token endpoint. It is asked by librdkafka.",
        examples=["https://idp.example.test/oauth2/token"],
    )
    client_id: Annotated[str, _TEXT] = Field(description="The client's id.", examples=["kubedelta"])
    client_secret_file: Path = Field(
        description="The file with the client's secret.", examples=["/run/secrets/kafka-client"]
    )
    scopes: tuple[Annotated[str, _SCOPE], ...] = Field(
        default=(), max_length=100, description="The scopes to ask for.", examples=[["kafka"]]
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust for token_url, in place of the system's. The sink's"
        " ca_file is for brokers only.",
        examples=["/run/secrets/idp-ca.crt"],
    )


_SASL = (SecurityProtocol.SASL_PLAINTEXT.value, SecurityProtocol.SASL_SSL.value)
_TLS = (SecurityProtocol.SSL.value, SecurityProtocol.SASL_SSL.value)
_SASL_BOTH = "sasl_mechanism and security_protocol sasl_plaintext or sasl_ssl belong together"
_TLS_ALONE = "ca_file and cert_file are of no use without security_protocol ssl or sasl_ssl"
_PASSWORDS = (SaslMechanism.PLAIN.value, SaslMechanism.SCRAM_SHA_256.value, SaslMechanism.SCRAM_SHA_512.value)
_OAUTHBEARER = Is("sasl_mechanism", SaslMechanism.OAUTHBEARER.value)
_SOURCES: tuple[Condition, ...] = (
    Given("token_command"),
    Given("oauth2"),
    HasName("properties", "sasl.oauthbearer"),
)
_ONE_SOURCE = "sasl_mechanism OAUTHBEARER needs one of token_command and oauth2, or properties sasl.oauthbearer.*"
_SOURCES_ALONE = "token_command, oauth2 and sasl_extensions belong to sasl_mechanism OAUTHBEARER"
_EXTENDED = "sasl_extensions belong to tokens of token_command and oauth2; elsewhere set sasl.oauthbearer.extensions"

AUTHENTICATION_RULES = (
    Rule(Is("security_protocol", *_SASL), Given("sasl_mechanism"), _SASL_BOTH),
    Rule(Given("sasl_mechanism"), Is("security_protocol", *_SASL), _SASL_BOTH),
    *together("username", "password_file"),
    needs("username", "sasl_mechanism"),
    Rule(Is("sasl_mechanism", *_PASSWORDS), Given("username"), "PLAIN and SCRAM need username and password_file"),
    Rule(Given("username"), Is("sasl_mechanism", *_PASSWORDS), "username and password_file are for PLAIN and SCRAM"),
    Rule(_OAUTHBEARER, AnyOf(*_SOURCES), _ONE_SOURCE),
    Rule(Given("token_command"), Not(AnyOf(*_SOURCES[1:])), _ONE_SOURCE),
    Rule(Given("oauth2"), Not(_SOURCES[2]), _ONE_SOURCE),
    Rule(AnyOf(Given("token_command"), Given("oauth2"), HasName("sasl_extensions")), _OAUTHBEARER, _SOURCES_ALONE),
    Rule(HasName("sasl_extensions"), AnyOf(*_SOURCES[:2]), _EXTENDED),
    *together("cert_file", "key_file"),
    Rule(AnyOf(Given("ca_file"), Given("cert_file")), Is("security_protocol", *_TLS), _TLS_ALONE),
)
"""Rules between the options of a connection to brokers."""
