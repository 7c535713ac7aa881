"""Topics of a Kafka sink.

topics   as the brokers know them: existence, partitions, cleanup policy
names    which topics hold the records of a resource
changes  topics that were created again, or have more partitions
watch    notices these changes, and changes of options that concern readers
missing  topics that nobody creates
"""
