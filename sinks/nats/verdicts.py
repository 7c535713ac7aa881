"""Judges an error of JetStream: whose fault it is, and so for how long it lasts. There is one row for each code, with
the reason.

The codes are those of ``server/errors.json`` of nats-server. Be slow to blame a record, as for Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JetStreamFault(StrEnum):
    RECORD = "record"
    """The stream will never take this message: a dead letter."""
    FENCE = "fence"
    """The stream has another last message than the expected one: another writer, or another leader."""
    STREAM = "stream"
    """The stream, the account or the server takes no message now: the sink tries again, after a pause."""


# fmt: off
_CONSUMERS = (
    10012, 10013, 10014, 10016, 10017, 10018, 10019, 10020, 10026, 10029, 10045, 10078, 10079, 10080, 10081,
    10082, 10083, 10084, 10085, 10086, 10087, 10088, 10089, 10090, 10091, 10092, 10093, 10094, 10095, 10098,
    10099, 10100, 10101, 10102, 10103, 10104, 10105, 10106, 10107, 10108, 10112, 10114, 10115, 10116, 10119,
    10121, 10125, 10126, 10127, 10131, 10132, 10134, 10135, 10136, 10137, 10138, 10139, 10148, 10149, 10153,
    10159, 10160, 10161, 10162, 10178, 10181, 10182, 10183, 10184, 10195, 10196, 10197, 10204, 10213, 10214,
    10215, 10216, 10217, 10218, 10219, 10220, 10221, 10222, 10225, 10228,
)
_API = (
    10003, 10005, 10011, 10015, 10021, 10022, 10024, 10025, 10027, 10030, 10031, 10032, 10033, 10034, 10036,
    10037, 10038, 10040, 10042, 10043, 10044, 10046, 10048, 10049, 10050, 10052, 10055, 10056, 10057, 10058,
    10061, 10062, 10064, 10065, 10066, 10067, 10068, 10069, 10072, 10073, 10074, 10075, 10110, 10113, 10117,
    10122, 10123, 10124, 10128, 10129, 10130, 10133, 10140, 10141, 10142, 10143, 10144, 10145, 10146, 10147,
    10150, 10151, 10152, 10154, 10155, 10156, 10157, 10202, 10224, 10226,
)
_UNUSED = (
    10168, 10169, 10170, 10171, 10172, 10173, 10174, 10175, 10176, 10177, 10179, 10186, 10187, 10188, 10189,
    10190, 10191, 10192, 10193, 10198, 10199, 10200, 10201, 10203, 10205, 10206, 10207, 10208, 10209, 10210,
    10211, 10212, 10223, 10227,
)
# fmt: on

VERDICTS: Mapping[JetStreamFault, Mapping[int, str]] = {
    JetStreamFault.RECORD: {
        10054: "larger than the stream's max_msg_size",
        10097: "its headers are larger than the server takes",
    },
    JetStreamFault.FENCE: {
        10071: "another message is the stream's last one: of another writer, or of another leader",
        10164: "another message is the stream's last one; the server does not say which",
    },
    JetStreamFault.STREAM: {
        10077: "the store takes none: it is full, or its disk is broken (but see TOO_LARGE_FOR_THE_STORE)",
        10063: "a replica that replays its log",
        10070: "another message id is the last one; the sink names none",
        10109: "sealed: the owner can make another stream",
        10060: "another stream takes the subject: see stream and subject",
        10059: "deleted a moment ago",
        10096: "closed a moment ago",
        10118: "offline: its servers are away",
        10194: "offline: a server is too old for its settings",
        10051: "the server met an error that it has no code for",
        10111: "a bucket that permits no purges (allow_rollup_hdrs)",
        10166: "a bucket that permits no times to live (allow_msg_ttl)",
        10165: "a time to live that the server refuses: the option sets it, and not the object",
        10158: "the same message is on its way already: it is known the next time",
        10163: "the stream's last messages are being stored",
        10180: "a server that has not caught up yet",
        10167: "too many requests at once",
        10023: "the server is out of memory or disk",
        10047: "the server is out of disk",
        10028: "the server is out of memory",
        10002: "the account's limits are reached",
        10120: "the account has no limits for this kind of stream",
        10053: "a limit of the stream or the account is reached",
        10076: "JetStream is not enabled",
        10039: "JetStream is not enabled for the account",
        10035: "the account is unknown",
        10008: "the cluster is electing a leader",
        10009: "the server does not lead the stream any more",
        10007: "the server does not have the stream",
        10004: "the cluster's answer is not whole",
        10006: "the server is not in a cluster",
        10010: "the server is not in a cluster",
        10041: "the replicas do not agree",
        10185: "the server is too old",
        **dict.fromkeys(_CONSUMERS, "answers a request about a consumer, and no message"),
        **dict.fromkeys(_API, "answers a request about a stream or a cluster, and no message"),
        **dict.fromkeys(_UNUSED, "about counters, batches and schedules of messages, which the sink does not use"),
    },
}
"""Fault → code → reason, of every code of nats-server. A code that only newer servers know counts as the stream's: it
is tried again."""

STORE_FAILED = 10077
TOO_LARGE_FOR_THE_STORE = "message too large"
"""The description of STORE_FAILED that is about the message alone."""
