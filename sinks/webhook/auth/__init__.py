"""How a request proves who sent it.

authorization  the header Authorization, from files
oauth2         access tokens by the client credentials grant
token_cache    an access token, renewed before its end
signature      signatures of Standard Webhooks, symmetric and asymmetric
"""
