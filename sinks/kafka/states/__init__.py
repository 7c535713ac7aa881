"""The state of objects in compacted topics, beside the history (option ``state_topic``).

topic  the newest record of each object, as a record of a compacted topic
sink   KafkaSink with such topics
"""
