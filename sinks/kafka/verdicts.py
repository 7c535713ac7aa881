"""Judges an error of librdkafka: whose fault it is, and so for how long it lasts. There is one row for each code, with
the reason.

Be slow to blame a record: a dead letter holds up its object until an operator looks at it, and whatever a clock, a
setting of a topic or a right causes would make one of every record.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from confluent_kafka import KafkaError as E


class Fault(StrEnum):
    RECORD = "record"
    """Brokers will never take this record, and refuse its whole batch: it is found and becomes a dead letter."""
    NEIGHBOUR = "neighbour"
    """Another record of the batch, or of the producer, was refused: the record is sent again at once."""
    TOPIC = "topic"
    """The topic, or a partition of it, takes no record now: its records wait, and those of other topics do not."""
    SINK = "sink"
    """Brokers, connection, credentials, or the producer: the sink tries again, after a pause."""
    FENCE = "fence"
    """Another producer has the transactional id: the sink ends its deliveries. Without transactions, as for SINK."""


_OTHER_REQUESTS = """
NO_ERROR _PARTITION_EOF _UNKNOWN_GROUP _EXISTING_SUBSCRIPTION _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _NO_OFFSET
_KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _MAX_POLL_EXCEEDED
_ASSIGNMENT_LOST _AUTO_OFFSET_RESET _LOG_TRUNCATION OFFSET_OUT_OF_RANGE OFFSET_METADATA_TOO_LARGE ILLEGAL_GENERATION
INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS
INVALID_COMMIT_OFFSET_SIZE GROUP_AUTHORIZATION_FAILED TOPIC_ALREADY_EXISTS NON_EMPTY_GROUP GROUP_ID_NOT_FOUND
FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH TOPIC_DELETION_DISABLED OFFSET_NOT_AVAILABLE
MEMBER_ID_REQUIRED GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS
GROUP_SUBSCRIBED_TO_TOPIC UNSTABLE_OFFSET_COMMIT RESOURCE_NOT_FOUND DUPLICATE_RESOURCE INCONSISTENT_VOTER_SET
INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR
STALE_MEMBER_EPOCH UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE INVALID_REGISTRATION INVALID_RECORD_STATE
SHARE_SESSION_NOT_FOUND INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER
VOTER_NOT_FOUND INVALID_REGULAR_EXPRESSION STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH
STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED
"""

VERDICTS: Mapping[Fault, Mapping[int, str]] = {
    Fault.RECORD: {
        E.MSG_SIZE_TOO_LARGE: "larger than max_message_bytes, or than max.message.bytes of the topic",
        E.RECORD_LIST_TOO_LARGE: "larger than a segment of the topic (segment.bytes)",
        E.INVALID_RECORD: "brokers validate records: a compacted topic wants a key, a schema a form",
    },
    Fault.NEIGHBOUR: {
        E._INVALID_DIFFERENT_RECORD: "another record of the batch is the invalid one",
        E._PURGE_QUEUE: "dropped unsent by a producer that ends",
        E._PURGE_INFLIGHT: "dropped without an answer by a producer that ends",
        E._GAPLESS_GUARANTEE: "the producer stops behind a refused record",
        E._FATAL: "the producer stops behind a refused record, and another one takes its place",
    },
    Fault.TOPIC: {
        E.UNKNOWN_TOPIC_OR_PART: "missing, or deleted a moment ago",
        E._UNKNOWN_TOPIC: "missing",
        E._UNKNOWN_PARTITION: "without this partition",
        E.UNKNOWN_TOPIC_ID: "deleted and created again",
        E.INCONSISTENT_TOPIC_ID: "deleted and created again",
        E.TOPIC_EXCEPTION: "a name that brokers do not permit, or an internal topic",
        E.TOPIC_AUTHORIZATION_FAILED: "the right to write to it is missing: that of DESCRIBE alone hides this",
        E.POLICY_VIOLATION: "a policy of the brokers forbids it",
        E.INVALID_CONFIG: "its settings contradict one another",
        E.INVALID_TIMESTAMP: "message.timestamp.before.max.ms or after.max.ms: clocks may be apart, and limits change",
        E.UNSUPPORTED_FOR_MESSAGE_FORMAT: "its message.format.version has no headers",
        E.UNSUPPORTED_COMPRESSION_TYPE: "its format knows no zstd",
        E.NOT_ENOUGH_REPLICAS: "fewer replicas in sync than min.insync.replicas",
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "fewer replicas in sync than min.insync.replicas, by now",
        E._ISR_INSUFF: "fewer replicas in sync than wanted",
        E.LEADER_NOT_AVAILABLE: "a partition without a leader: created, or moved, a moment ago",
        E.NOT_LEADER_FOR_PARTITION: "a partition that has moved",
        E.REPLICA_NOT_AVAILABLE: "a replica that is away",
        E.FENCED_LEADER_EPOCH: "a partition with a newer leader",
        E.UNKNOWN_LEADER_EPOCH: "a partition whose leader is not known yet",
        E.PREFERRED_LEADER_NOT_AVAILABLE: "a partition without its leader",
        E.ELIGIBLE_LEADERS_NOT_AVAILABLE: "a partition without a leader",
        E.REASSIGNMENT_IN_PROGRESS: "a partition that is moving",
        E.KAFKA_STORAGE_ERROR: "a log directory of the broker is offline: only partitions in it suffer",
        E.LOG_DIR_NOT_FOUND: "a log directory of the broker is gone",
        E.INVALID_PARTITIONS: "created with a number of partitions that brokers refuse",
        E.INVALID_REPLICATION_FACTOR: "created with more replicas than there are brokers",
        E.INVALID_REPLICA_ASSIGNMENT: "created with replicas that do not exist",
    },
    Fault.FENCE: {
        E.INVALID_PRODUCER_EPOCH: "a newer producer has the transactional id",
        E.PRODUCER_FENCED: "a newer producer has the transactional id",
        E._FENCED: "a newer producer has the transactional id",
    },
    Fault.SINK: {
        # Brokers and connections.
        E._TRANSPORT: "the connection broke",
        E._RESOLVE: "no address for the name of a broker",
        E._ALL_BROKERS_DOWN: "no broker can be reached",
        E._SSL: "TLS: certificates may be renewed",
        E._AUTHENTICATION: "credentials: they may be renewed",
        E._TIMED_OUT: "no answer in time",
        E._TIMED_OUT_QUEUE: "not sent in time",
        E._MSG_TIMED_OUT: "not delivered in time",
        E._DESTROY: "the client ends",
        E._DESTROY_BROKER: "a broker left the cluster",
        E._FAIL: "a broker left the protocol",
        E._BAD_MSG: "an answer that cannot be read: bytes were damaged on the way, or another program answers",
        E._BAD_COMPRESSION: "an answer that cannot be inflated",
        E._UNDERFLOW: "an answer that is too short",
        E._PARTIAL: "an answer that is not whole",
        E._CRIT_SYS_RESOURCE: "this machine is short of memory or threads",
        E._FS: "a file of this machine cannot be read",
        E._INTR: "a call was interrupted",
        E._RETRY: "librdkafka tries again",
        E._WAIT_COORD: "a coordinator is sought",
        E._WAIT_CACHE: "metadata are on their way",
        E._NODE_UPDATE: "a broker has another address now",
        E._UNKNOWN_BROKER: "metadata are older than the cluster",
        E._QUEUE_FULL: "more messages than the producer holds",
        E._UNSUPPORTED_FEATURE: "brokers are too old for a setting",
        E._INVALID_ARG: "a setting that librdkafka refuses",
        E._NOT_CONFIGURED: "a setting is missing",
        E._NOT_IMPLEMENTED: "a setting that librdkafka does not know here",
        E._STATE: "the producer is in another state: one takes its place",
        E._INCONSISTENT: "the producer lost count of its messages: one takes its place",
        E._CONFLICT: "two calls at once",
        E._IN_PROGRESS: "a call is under way",
        E._PREV_IN_PROGRESS: "a call is under way",
        E._OUTDATED: "a newer call took the place",
        E._UNKNOWN_PROTOCOL: "another protocol",
        E._READ_ONLY: "an object of librdkafka that is not to be changed",
        E._NOENT: "an object of librdkafka is missing",
        E._INVALID_TYPE: "an object of librdkafka has another type",
        E._APPLICATION: "raised by a program for itself",
        E._NOOP: "nothing to do",
        E.UNKNOWN: "the broker met an error that it has no code for",
        E.REQUEST_TIMED_OUT: "replicas did not follow in time",
        E.BROKER_NOT_AVAILABLE: "the broker is away",
        E.NETWORK_EXCEPTION: "the connection broke",
        E.INVALID_MSG: "bytes were damaged on the way (CRC): the same record passes the next time",
        E.INVALID_MSG_SIZE: "a request whose length is wrong",
        E.THROTTLING_QUOTA_EXCEEDED: "a quota: brokers want fewer requests for now",
        E.STALE_BROKER_EPOCH: "the broker starts again",
        E.STALE_CTRL_EPOCH: "another controller was elected",
        E.NOT_CONTROLLER: "another controller was elected",
        E.UNKNOWN_CONTROLLER_ID: "another controller was elected",
        E.REBOOTSTRAP_REQUIRED: "metadata are too old: the client begins anew",
        E.LISTENER_NOT_FOUND: "the broker has no address for this listener",
        E.MISMATCHED_ENDPOINT_TYPE: "a controller answers, and no broker",
        E.UNSUPPORTED_ENDPOINT_TYPE: "a controller answers, and no broker",
        E.OPERATION_NOT_ATTEMPTED: "another part of the request failed",
        E.INVALID_REQUEST: "brokers do not understand the request: a proxy, or another version",
        E.UNSUPPORTED_VERSION: "brokers are too old",
        E.INVALID_REQUIRED_ACKS: "a setting that brokers refuse",
        # Rights and credentials, which may be granted and renewed.
        E.CLUSTER_AUTHORIZATION_FAILED: "the right to write idempotently is missing",
        E.SASL_AUTHENTICATION_FAILED: "credentials are refused: they may be renewed",
        E.UNSUPPORTED_SASL_MECHANISM: "the listener wants another mechanism",
        E.ILLEGAL_SASL_STATE: "the listener has no SASL",
        E.SECURITY_DISABLED: "brokers have no authorizer",
        E.PRINCIPAL_DESERIALIZATION_FAILURE: "brokers do not understand who writes",
        E.INVALID_PRINCIPAL_TYPE: "brokers do not understand who writes",
        E.UNACCEPTABLE_CREDENTIAL: "credentials do not satisfy a rule of the brokers",
        E.DELEGATION_TOKEN_AUTH_DISABLED: "brokers take no delegation tokens",
        E.DELEGATION_TOKEN_NOT_FOUND: "the delegation token is unknown: it may be renewed",
        E.DELEGATION_TOKEN_OWNER_MISMATCH: "the delegation token is somebody else's",
        E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "the listener takes no delegation tokens",
        E.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "the right to the delegation token is missing",
        E.DELEGATION_TOKEN_EXPIRED: "the delegation token has ended: it may be renewed",
        # The numbers of an idempotent producer: another producer begins with new ones.
        E.OUT_OF_ORDER_SEQUENCE_NUMBER: "the partition has lost records, or another number is expected",
        E.DUPLICATE_SEQUENCE_NUMBER: "the partition knows the number: librdkafka counts it as stored",
        E.UNKNOWN_PRODUCER_ID: "the partition has forgotten the producer",
        # Transactions: what was stored is found out, and all of it sent again.
        E.INVALID_TXN_STATE: "the transaction has another state",
        E.INVALID_PRODUCER_ID_MAPPING: "brokers have forgotten the transactional id",
        E.INVALID_TRANSACTION_TIMEOUT: "longer than transaction.max.timeout.ms",
        E.CONCURRENT_TRANSACTIONS: "the transaction before is being ended",
        E.TRANSACTION_COORDINATOR_FENCED: "another coordinator was elected",
        E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the right to the transactional id is missing",
        E.TRANSACTION_ABORTABLE: "the transaction is to be aborted, and sent again",
        E.COORDINATOR_LOAD_IN_PROGRESS: "a coordinator starts",
        E.COORDINATOR_NOT_AVAILABLE: "a coordinator is away",
        E.NOT_COORDINATOR: "another coordinator was elected",
        # Answers to other requests than a producer's: whoever gives one to a record says nothing about the record.
        **{getattr(E, name): "no answer to a record" for name in _OTHER_REQUESTS.split()},
    },
}
"""Fault → code → reason, of every code of librdkafka. A code that only newer brokers know counts as the sink's: it is
tried again."""

REFUSALS = VERDICTS[Fault.RECORD].keys()
"""Brokers will never take the record. They give this error to the record's whole batch."""
TOO_LARGE = frozenset({E.MSG_SIZE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE})
"""Refusals that a smaller form of the record may escape."""
TOPIC_ERRORS = VERDICTS[Fault.TOPIC].keys()
NEIGHBOURS = VERDICTS[Fault.NEIGHBOUR].keys()
MISSING = frozenset(
    {
        E.UNKNOWN_TOPIC_OR_PART,
        E._UNKNOWN_TOPIC,
        E._UNKNOWN_PARTITION,
        E.UNKNOWN_TOPIC_ID,
        E.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of topics that metadata show, too."""
FENCING = VERDICTS[Fault.FENCE].keys()
