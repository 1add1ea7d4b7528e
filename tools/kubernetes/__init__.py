"""A Kubernetes cluster on this machine, for experiments.

All of it is real but the images of the containers: the API server, the controllers,
the scheduler and the kubelet are built from Kubernetes' own Go modules, etcd,
containerd and runc are Debian's.
"""
