"""HTTP requests to an endpoint, and the meaning of the responses.

client     an HTTP client, and its errors in words
endpoint   a URL with its HTTP client
networks   the addresses that a sink may connect to
responses  the meaning of a response for the posted records
"""
