"""Checks the options of a Kafka sink without a broker: librdkafka gets the configuration, but no address. It also names
the claims on topics.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, Producer

from sinks.base import Claim
from sinks.kafka.config import ClientConfig
from sinks.kafka.options import KafkaOptions
from sinks.kafka.tokens import check_program
from sinks.receipt import WrongOption, wrong_options
from sinks.secret_files import Step, TlsFiles, check_tls_files, read_secret

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


def claims(options: KafkaOptions) -> Sequence[Claim]:
    """Claims on the topics by their templates, at each broker of the first ones. A topic with states has one writer:
    two would replace each other's states, and notices are no states."""
    topics = [(options.topic, False), (options.notice_topic or options.topic, False), (options.state_topic, True)]
    return [
        Claim(f"kafka {broker} {topic}", f"the state_topic {topic}", exclusive)
        for broker in dict.fromkeys(options.bootstrap_servers.split(","))
        for topic, exclusive in dict.fromkeys(topics)
        if topic is not None
    ]


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
