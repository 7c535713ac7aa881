"""How a request proves who sent it.

signature  signatures of Standard Webhooks, symmetric and asymmetric
"""
