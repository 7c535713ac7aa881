"""Where the API server is, how it proves itself, and how we do.

access        resolves the operator's settings into a connection
credentials   bearer tokens that change during a run
exec_plugin   credential plugins (client.authentication.k8s.io)
in_cluster    service account of a pod
kubeconfig    kubeconfig files: merging, choice of a context
proxy         the proxy between us and the server
tls           certificates and keys
"""
