"""Exactly once: records, markers, states and progress in one transaction (option ``exactly_once``).

producer   errors of transactions by what to do about them; a producer that sends in transactions
progress   the progress topic
refusals   records that a broker refused, found one by one
sink       the messages of a batch, in the open transaction; each delivery as a transaction of a Kafka sink

A transaction is stored as a whole or not at all. Its last record is the progress, and only readers of committed records
see it when it ends. Whoever begins to write (``init_transactions``) ends the transactions of every earlier writer with
the same transactional id, and then reads how far that writer came. So there is no moment at which a record could be
delivered by two, or by nobody.

The destination has records and progress together, so after a crash it alone knows how far it came: the sink ends the
transactions of its predecessor, reads the progress, and moves the cursor on disk forward to it, as Kafka Connect
(KIP-618) and Materialize do. Consumers who leave out known ids are served by every sink; those who count records need
this. An outcome that is unknown is never guessed. The price: 50 to 70 ms for each transaction, readers that must ask
for committed records, and a further topic; so it is an option.

A fenced sink pauses until an operator resumes it: to open again at once would fence the other bridge, which would do
the same. Brokers report a transaction that they timed out in the same words as a takeover; the owner that each progress
names tells these apart.
"""
