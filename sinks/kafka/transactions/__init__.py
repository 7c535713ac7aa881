"""Exactly once (option ``exactly_once``): records, markers, states and progress are stored in one transaction, as a
whole or not at all.

producer   sends in transactions, and sorts their errors by what to do about them
progress   reads and writes the progress topic
refusals   finds records that a broker refused, one by one
sink       ExactlyOnceKafkaSink: makes each delivery of a Kafka sink a transaction

The last record of a transaction is the progress, and only readers of committed records see it when it ends. Whoever
begins to write (``init_transactions``) ends the transactions of every earlier writer with the same transactional id,
and then reads how far that writer came. So there is no moment at which a record could be delivered by two, or by
nobody.

The destination has records and progress together, so after a crash it alone knows how far it came: the sink ends the
transactions of its predecessor, reads the progress, and moves the cursor on disk forward to it, as Kafka Connect
(KIP-618) and Materialize do. Consumers who leave out known ids are served by every sink; those who count records need
this. An outcome that is unknown is never guessed. The price: 50 to 70 ms for each transaction, readers that must ask
for committed records, and a further topic; so it is an option. ``tests/sinks/kafka/test_exactly_once.py``

A fenced sink pauses until an operator resumes it: to open again at once would fence the other bridge, which would do
the same. Brokers report a transaction that they timed out in the same words as a takeover; the owner that each progress
names tells these apart.
"""
