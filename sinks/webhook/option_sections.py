"""Options of a webhook that are mappings."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from config.values import Between, Count, Duration, Matching, Names
from sinks.webhook.option_types import Url

_TEXT = Matching(r"[\x20-\x7e]+", "printable ASCII is expected", longest=1024)
_SCOPE = Matching(r"[\x21\x23-\x5b\x5d-\x7e]+", "a scope is one word of printable ASCII without quotes", longest=1024)
_PARAMETER = Matching(
    r"(?!(?:grant_type|scope|client_id|client_secret|client_assertion.*|password)$)[A-Za-z0-9_.:-]+",
    lambda name: f"{name!r} is no further parameter of a token request: credentials stand in files",
    longest=256,
)


class ClientAuth(StrEnum):
    """How a client proves itself to the token endpoint, by the names of OpenID Connect."""

    BASIC = "client_secret_basic"
    POST = "client_secret_post"


class OAuth2Options(BaseModel):
    """The client credentials grant of OAuth 2.0 (RFC 6749, 4.4)."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    token_url: Url = Field(
        description="The URL of the token endpoint. Redirects are not followed, and allow_networks holds here too.",
        examples=["https://idp.example.test/oauth2/token"],
    )
    client_id: Annotated[str, _TEXT] = Field(description="The client's id.", examples=["kubedelta"])
    client_secret_file: Path = Field(
        description="The file with the client's secret. It is read for every token.",
        examples=["/run/secrets/hook-client"],
    )
    scopes: tuple[Annotated[str, _SCOPE], ...] = Field(
        default=(), max_length=100, description="The scopes to ask for.", examples=[["events.write"]]
    )
    endpoint_params: Annotated[dict[str, Annotated[str, _TEXT]], Names(_PARAMETER)] = Field(
        default={},
        description="Further parameters of the token request, such as audience or resource.",
        examples=[{"audience": "hook"}],
    )
    client_auth: ClientAuth = Field(
        default=ClientAuth.BASIC,
        description="How id and secret are sent: in the header Authorization, as every server must understand, or in"
        " the body of the token request.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust for token_url, in place of the sink's ca_file.",
        examples=["/run/secrets/idp-ca.crt"],
    )


class RateOptions(BaseModel):
    """A token bucket for requests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: Count = Field(
        ge=1, le=1_000_000, description="Requests in each time of per, evenly spaced.", examples=[100]
    )
    per: Annotated[Duration, Between(0.001, 3600)] = Field(
        default=Duration(1), description="The time for that many requests.", examples=["1m"]
    )
    burst: Count = Field(
        default=1,
        ge=1,
        le=1_000_000,
        description="Requests that may begin at once after a quiet time, beyond the even spacing.",
    )

    @property
    def per_second(self) -> float:
        return self.requests / self.per
