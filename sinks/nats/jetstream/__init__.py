"""A JetStream stream and its answers.

stream          finds or creates the stream; finds lost messages
leading         takes the stream over for the leader of a term
losses          whether the stream has lost messages that the sink had stored
pub_ack         the server's answer to a published message
publish_window  the messages of an exchange that are in flight
duplicates      which duplicates are sent again
"""
