"""HTTP requests to an endpoint, and the meaning of the responses.

client     an HTTP client, and its errors in words
responses  the meaning of a response for the posted records
"""
