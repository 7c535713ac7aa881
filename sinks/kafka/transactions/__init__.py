"""Exactly once: records, markers, states and progress in one transaction (option ``exactly_once``).

failures   errors of transactions by what to do about them
options    the options
producer   a producer that sends in transactions
progress   the progress topic
refusals   records that a broker refused, found one by one
sender     the messages of a batch, in the open transaction
sink       each delivery as a transaction of a Kafka sink

A transaction is stored as a whole or not at all. Its last record is the progress, and only readers of committed records
see it when it ends. Whoever begins to write (``init_transactions``) ends the transactions of every earlier writer with
the same transactional id, and then reads how far that writer came. So there is no moment at which a record could be
delivered by two, or by nobody.
"""
