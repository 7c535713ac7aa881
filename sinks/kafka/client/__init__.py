"""The clients of librdkafka.

config     the options as configuration properties
producer   a producer and its poll thread
producers  the present producer, replaced when it fails
"""
