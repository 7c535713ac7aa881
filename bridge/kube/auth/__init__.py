"""The server's address, its certificate authority, and our credentials.

access            resolves the operator's settings into a connection
credentials       bearer tokens that change during a run
exec_plugin       credential plugins (client.authentication.k8s.io)
in_cluster        service account of a pod
kubeconfig        merges kubeconfig files, and chooses a context
kubeconfig_file   the schema of a kubeconfig file, read with bounds
plugin_process    runs a plugin's process, with bounds
proxy             the proxy between us and the server
renewal           reads the files of the connection again
tls               certificates and keys
"""
