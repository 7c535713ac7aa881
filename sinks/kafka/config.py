"""Makes the configuration properties of librdkafka (CONFIGURATION.md there) of the sink's options, and tells which
option a refusal by brokers is about, by librdkafka's words for it. ``examine`` checks the options before the bridge
runs, without a broker: librdkafka gets the configuration, but no address.

With more than one request in flight to each broker, 4 of 30 new topics lost a batch on a busy machine, for the reason
at that property (``ClientConfig``); with one, none of 30. A first batch to every partition by itself must know the
partitioner, and again after each new producer. The price: requests to a broker, one for each partition of a batch, go
one after another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from config.values import Size
from sinks.kafka.options import KafkaOptions, SaslMechanism, WhenTooLarge
from sinks.kafka.tokens import CommandTokens, check_program
from sinks.receipt import WrongOption, wrong_options
from sinks.secret_files import RenewedFiles, Step, TlsFiles, check_tls_files, read_secret

_QUEUE_KBYTES = 32 * 1024
"""Bound of the producer's queue; librdkafka's default is a gigabyte."""
_LARGEST_UNCOMPRESSED = 32 << 20
"""Bytes of a record with ``too_large: compress``. An object has at most 16 MiB."""
_TRANSACTION_TIMEOUT = 60.0


def transaction_timeout(options: KafkaOptions) -> int:
    """Milliseconds after which brokers abort an open transaction: until then readers of committed records wait behind
    it. Longer than a transaction may take whose brokers answer just in time."""
    return round(1000 * max(_TRANSACTION_TIMEOUT, 3 * options.ack_timeout))


class ClientConfig:
    """The properties of a sink's clients. Every call reads the files of secrets, so that renewed files are used."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self.tokens: CommandTokens | None = None
        """Shared by all clients; None without ``token_command``."""
        if options.token_command is not None:
            self.tokens = CommandTokens(
                options.token_command, timeout=options.token_timeout, extensions=options.sasl_extensions
            )

    def connection(self) -> dict[str, Any]:
        """Properties that every client needs to reach the brokers. Runs ``token_command`` if no token is fresh: blocks.
        Raises WrongOption."""
        config = self._static_connection()
        if self.tokens is not None:
            # A client would wait ten seconds for a command that fails, and then report the failure in its own words.
            self.tokens.read()
            config["oauth_cb"] = self.tokens.refresh
        return config

    def producer(self, *, gapless: bool) -> dict[str, Any]:
        """Properties of an idempotent producer. With ``gapless``, a refused batch stops the producer before any later
        message is stored. Blocks, and raises WrongOption, as ``connection`` does."""
        return self._producer_alone(gapless=gapless) | self.connection()

    def transactional(self, transactional_id: str, batch_bytes: int) -> dict[str, Any]:
        """Properties of a producer that sends in transactions, and batches of at most so many bytes. Blocks, and raises
        WrongOption, as ``connection`` does."""
        alone = self._producer_alone(gapless=False)
        alone["batch.size"] = min(alone["batch.size"], batch_bytes)
        return alone | self._transactions(transactional_id) | self.connection()

    def producer_without_tokens(self) -> dict[str, Any]:
        """Properties to check without brokers: ``token_command`` does not run. Blocks. Raises WrongOption."""
        if self._options.exactly_once:
            return self._producer_alone(gapless=False) | self._transactions("check") | self._static_connection()
        return self._producer_alone(gapless=True) | self._static_connection()

    def reader(self, purpose: str) -> dict[str, Any]:
        """Properties of a consumer that joins no group and commits no offsets. Blocks, and raises WrongOption, as
        ``connection`` does."""
        options = self._options
        defaults = {
            "log_level": 0,
            "group.id": f"{options.client_id}-{purpose}",  # The client asks for a name; no broker ever hears of it.
            "queued.max.messages.kbytes": _QUEUE_KBYTES,
        }
        required = {
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            # An open transaction of another producer would hide the end from a reader of committed records.
            "isolation.level": "read_committed" if options.exactly_once else "read_uncommitted",
        }
        return defaults | self.connection() | required

    def refused(self, error: str) -> WrongOption | None:
        """``error``: the last error of a client. None if it is no refusal: brokers may only be away."""
        if found := _about(self._options, error):
            option, reason = found
            return WrongOption(option, f"{reason} ({error})")
        return None

    def files(self) -> RenewedFiles:
        """Watches the files of secrets and certificates from now on."""
        options = self._options
        oauth2 = () if options.oauth2 is None else (options.oauth2.client_secret_file, options.oauth2.ca_file)
        files = options.password_file, options.ca_file, options.cert_file, options.key_file
        return RenewedFiles([*files, *oauth2, *options.property_files.values()])

    def _producer_alone(self, *, gapless: bool) -> dict[str, Any]:
        options = self._options
        largest = options.max_message_bytes
        if options.too_large is WhenTooLarge.COMPRESS:
            largest = Size(max(largest, _LARGEST_UNCOMPRESSED))
        defaults = {
            # Changes are gathered before they are compared: a further wait would add latency, and one more wake-up.
            "linger.ms": 0,
            # The default of Kafka's Java clients, so that all producers put a key into the same partition. librdkafka's
            # default differs.
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 20_000,
            "queue.buffering.max.kbytes": max(
                _QUEUE_KBYTES, 4 * options.max_message_bytes // 1024, 2 * largest // 1024
            ),
        }
        required = {
            "enable.idempotence": True,
            "enable.gapless.guarantee": gapless,
            # A broker may create a topic that a producer names, with partitions and a cleanup policy of its own.
            "allow.auto.create.topics": False,
            "message.timeout.ms": 0,
            # A partition that was created or moved a moment ago may refuse a producer's first batch and take the second
            # one: a broker accepts any sequence number from a producer that is new to it. librdkafka then counts both
            # batches as stored. With one request per broker there is no second batch to accept.
            "max.in.flight.requests.per.connection": 1,
            "compression.type": options.compression.value,
            # librdkafka compares the uncompressed record with it, brokers the compressed batch with their own limit.
            "message.max.bytes": largest,
            "batch.size": min(1_000_000, options.max_message_bytes),
        }
        return defaults | required

    def _transactions(self, transactional_id: str) -> dict[str, Any]:
        timeout = self._options.properties.get("transaction.timeout.ms", transaction_timeout(self._options))
        # A message that fails makes the transaction fail, so no message goes past it; and none may outlive it.
        return {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout,
            "message.timeout.ms": timeout,
        }

    def _static_connection(self) -> dict[str, Any]:
        options = self._options
        config: dict[str, Any] = {
            "bootstrap.servers": options.bootstrap_servers,
            "client.id": options.client_id,
            "security.protocol": options.security_protocol.value,
            "socket.keepalive.enable": True,
        }
        if options.sasl_mechanism is not None:
            config["sasl.mechanism"] = options.sasl_mechanism.value
        if options.username is not None and options.password_file is not None:
            config |= {
                "sasl.username": options.username,
                "sasl.password": read_secret(options.password_file, "password_file"),
            }
        config |= _token_endpoint(options)
        if options.ca_file is not None:
            config["ssl.ca.location"] = str(options.ca_file)
        if options.cert_file is not None and options.key_file is not None:
            config |= {"ssl.certificate.location": str(options.cert_file), "ssl.key.location": str(options.key_file)}
        config |= options.properties
        config |= {name: read_secret(path, f"property_files.{name}") for name, path in options.property_files.items()}
        return config


def _token_endpoint(options: KafkaOptions) -> dict[str, str]:
    if options.oauth2 is None:
        return {}
    oauth2 = options.oauth2
    config = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth2.token_url,
        "sasl.oauthbearer.client.id": oauth2.client_id,
        "sasl.oauthbearer.client.secret": read_secret(oauth2.client_secret_file, "oauth2.client_secret_file"),
    }
    if oauth2.scopes:
        config["sasl.oauthbearer.scope"] = " ".join(oauth2.scopes)
    if options.sasl_extensions:
        config["sasl.oauthbearer.extensions"] = ",".join(map("=".join, options.sasl_extensions.items()))
    if oauth2.ca_file is not None:
        config["https.ca.location"] = str(oauth2.ca_file)
    return config


# ── Refusals ─────────────────────────────────────────────────────────────────

_ALERT = re.compile(r"SSL alert number|alert (?:bad|unknown|unsupported|certificate|handshake|access)")
"""The peer ended the handshake. Beyond a wrong version, that is about the certificate that it was shown."""
_MECHANISMS = re.compile(r"supported mechanisms:([A-Z0-9, -]++)")
_ALL_DOWN = re.compile(r"/\d++ brokers are down|Broker transport failure")


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


# ── The options ──────────────────────────────────────────────────────────────

_OPTIONS = {
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "cert_file",
    "ssl.key.location": "key_file",
    "SASL mechanism": "sasl_mechanism",
    "sasl.username": "username",
    "sasl.oauthbearer.": "oauth2",
    "https.ca.location": "oauth2.ca_file",
    "message.max.bytes": "max_message_bytes",
}
"""A word in librdkafka's complaint → the option of the sink."""


def examine(options: KafkaOptions) -> Sequence[WrongOption]:
    """Files first, then each property alone, then all together: a later check needs the earlier ones to succeed."""
    return (
        wrong_options(_files(options))
        or wrong_options(_properties(options))
        or wrong_options([partial(_all_together, options)])
    )


def _topics(options: KafkaOptions) -> None:
    if options.state_topic is not None and options.state_topic in (options.topic, options.notice_topic):
        raise WrongOption(
            "state_topic", "the topic of states has no other records: it differs from topic, notice_topic"
        )
    if options.exactly_once and options.topic_of_progress in (options.topic, options.notice_topic, options.state_topic):
        raise WrongOption("progress_topic", "the topic of progress has no records: it differs from the other topics")


def _files(options: KafkaOptions) -> Iterator[Step]:
    if options.state_topic is not None or options.exactly_once:
        yield partial(_topics, options)
    files = options.ca_file, options.cert_file, options.key_file
    if not any(name.startswith("ssl.") for name in (*options.properties, *options.property_files)):
        # Not with properties ssl.*: then the key may have a password that only librdkafka gets.
        yield from check_tls_files(*files)
    if options.password_file is not None:
        yield partial(read_secret, options.password_file, "password_file")
    if options.oauth2 is not None:
        yield partial(read_secret, options.oauth2.client_secret_file, "oauth2.client_secret_file")
        yield TlsFiles(options.oauth2.ca_file, section="oauth2").context
    if options.token_command is not None:
        yield partial(check_program, options.token_command)
    for name, path in options.property_files.items():
        yield partial(read_secret, path, f"property_files.{name}")


def _properties(options: KafkaOptions) -> Iterator[Step]:
    """Each alone: librdkafka complains of a single property, and calls it by the name that it prefers."""
    for name, value in options.properties.items():
        yield partial(_alone, f"properties.{name}", name, value)
    for name, path in options.property_files.items():
        option = f"property_files.{name}"
        yield partial(_alone, option, name, read_secret(path, option), secret=True)


def _alone(option: str, name: str, value: Any, *, secret: bool = False) -> None:
    complaint = _complaint({name: value})
    if complaint is None or "Failed to create" in complaint:
        return  # The property is correct, and needs further properties.
    if "No such configuration property" in complaint:
        raise WrongOption(option, "librdkafka has no setting of this name (CONFIGURATION.md there lists them)")
    raise WrongOption(option, "librdkafka does not take what the file holds" if secret else complaint)


def _all_together(options: KafkaOptions) -> None:
    config = ClientConfig(options).producer_without_tokens()
    del config["bootstrap.servers"]
    if complaint := _complaint(config):
        about = next((option for words, option in _OPTIONS.items() if words in complaint), None)
        named = next((name for name in options.properties if name in complaint), None)
        raise WrongOption(about or (f"properties.{named}" if named else "properties"), complaint)


def _complaint(config: dict[str, Any]) -> str | None:
    try:
        Producer(config | {"log_level": 0})
    except KafkaException as error:
        return re.sub(r"error:[0-9A-F]+:", "", error.args[0].str()).strip()
    except (TypeError, ValueError) as error:
        return str(error)
    return None
