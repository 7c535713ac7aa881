"""How a request proves who sent it.

authorization  the header Authorization, from files
signature      signatures of Standard Webhooks, symmetric and asymmetric
"""
