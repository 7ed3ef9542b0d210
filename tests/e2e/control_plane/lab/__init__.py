"""A real control plane on loopback, a fake kubelet and the programs between kube-scheduler and the extender."""
