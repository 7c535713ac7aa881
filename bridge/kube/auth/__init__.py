"""The server's address, its certificate authority, and our credentials.

access        service account of a pod; the proxy between us and the server; certificates and keys; resolves the
              operator's settings into a connection; reads the files of the connection again
credentials   bearer tokens that change during a run
exec_plugin   runs a plugin's process, with bounds; credential plugins (client.authentication.k8s.io)
kubeconfig    the schema of a kubeconfig file, read with bounds; merges kubeconfig files, and chooses a context
"""
