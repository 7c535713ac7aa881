"""Which option a refusal by brokers is about, by librdkafka's words for it. Pure."""

from __future__ import annotations

import re

from sinks.errors import WrongOption
from sinks.kafka.option_types import SaslMechanism
from sinks.kafka.options import KafkaOptions

_ALERT = re.compile(r"SSL alert number|alert (?:bad|unknown|unsupported|certificate|handshake|access)")
"""The peer ended the handshake. Beyond a wrong version, that is about the certificate that it was shown."""
_MECHANISMS = re.compile(r"supported mechanisms:([A-Z0-9, -]++)")
_ALL_DOWN = re.compile(r"/\d++ brokers are down|Broker transport failure")


def refusal(options: KafkaOptions, error: str) -> WrongOption | None:
    """``error``: the last error of a client. None if it is no refusal: brokers may only be away."""
    if found := _about(options, error):
        option, reason = found
        return WrongOption(option, f"{reason} ({error})")
    return None


def unreachable(options: KafkaOptions, error: str) -> str:
    """An error that is no refusal, in words for the operator."""
    hint = ""
    if "closed by peer" in error and "SSL_HANDSHAKE" in error:
        hint = "; they end the TLS handshake, as listeners without TLS do: see security_protocol"
    elif _ALL_DOWN.search(error):
        # Brokers end the connection without a word where they expect another protocol.
        hint = "; they do not answer in this protocol, or not at all: see bootstrap_servers and security_protocol"
    return f"cannot reach {options.bootstrap_servers}: {error}{hint}"


def _about(options: KafkaOptions, error: str) -> tuple[str, str] | None:
    if "Unsupported SASL mechanism" in error:
        known = _MECHANISMS.search(error)
        offer = f"; they know {known[1].strip()}" if known else ""
        return "sasl_mechanism", f"the brokers do not know {options.sasl_mechanism}{offer}"
    if "not valid in current SASL state" in error:
        return "security_protocol", "the brokers' listener is one without SASL"
    if "PLAINTEXT broker listener" in error:
        return "security_protocol", "the brokers' listener is one without TLS"
    if "certificate verify failed" in error:
        return "ca_file", "the certificate of the brokers is of no authority in it, or for other names"
    if _ALERT.search(error):
        if options.cert_file is None:
            return "cert_file", "the brokers ask for a certificate"
        return "cert_file", "the brokers do not accept the certificate"
    if "Failed to acquire SASL OAUTHBEARER token" in error:
        return _token_option(options), "there is no token"
    if "SASL authentication error" not in error or options.sasl_mechanism is SaslMechanism.GSSAPI:
        return None
    if options.sasl_mechanism is SaslMechanism.OAUTHBEARER:
        return _token_option(options), "the brokers refuse the token"
    return "password_file", f"the brokers refuse the user {options.username} with this password"


def _token_option(options: KafkaOptions) -> str:
    if options.token_command is not None:
        return "token_command"
    return "properties" if options.oauth2 is None else "oauth2"
