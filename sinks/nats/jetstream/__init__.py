"""A JetStream stream and its answers.

stream          finds or creates the stream; finds lost messages
losses          whether the stream has lost messages that the sink had stored
pub_ack         the server's answer to a published message
verdicts        whose fault an error of JetStream is
publish_window  the messages of an exchange that are in flight
numbering       which number of the last message each message names
duplicates      which messages are sent again
"""
