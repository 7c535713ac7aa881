"""Errors of transactions. Pure."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from sinks.errors import SinkUnavailable
from sinks.kafka.verdicts import FENCING


class OtherOwner(SinkUnavailable):
    """Another process owns the newest progress."""

    fenced = True


def other_owner() -> OtherOwner:
    return OtherOwner(
        "another process uses the same transactional id, and has taken the topics over: a bridge with the same names of"
        " cluster and sink; end one of them, then resume the sink here"
    )


def earlier_term(theirs: int, own: int) -> OtherOwner:
    return OtherOwner(f"the leader of term {theirs} has taken the topics over, and this replica led in term {own}")


class TransactionFailed(SinkUnavailable):
    """A call failed, and whether the transaction was stored is unknown, however clear the error is. A new producer ends
    what is open, and the progress tells what was stored. librdkafka takes no new number for its producer when an answer
    is late (KIP-890), so the old producer is of no more use. The message is for the operator."""


class ProducerFenced(TransactionFailed):
    """Another producer took the place of this one, or a transaction timed out."""

    doubted = True


def failure_of(error: KafkaError, transactional_id: str, last_error: str) -> TransactionFailed:
    """``last_error``: of the connections, which says why an answer is late."""
    if error.code() in FENCING:
        return ProducerFenced(
            "brokers take no more from this producer (fenced): another one has its transactional id, or a transaction"
            " timed out"
        )
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        needs = f"Describe and Write on the prefix {transactional_id.rpartition('/')[0]}/"
        return TransactionFailed(
            f"not authorized to use the transactional id {transactional_id}: allow {needs} of transactional ids"
        )
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return TransactionFailed(
            "brokers allow no transaction.timeout.ms so large: see their transaction.max.timeout.ms, and properties"
        )
    if error.code() == KafkaError._TIMED_OUT and last_error:
        return TransactionFailed(last_error)
    return TransactionFailed(error.str())


def error_in(raised: BaseException) -> KafkaError | None:
    """The error of a call; None if it raised a bug. A fatal error goes to the client's ``error_cb``, too, and if that
    happens inside the call, a SystemError has the exception as its cause."""
    found: BaseException | None = raised
    while found is not None and not isinstance(found, KafkaException):
        found = found.__cause__
    if found is None:
        return None
    error: KafkaError = found.args[0]
    return error
