"""Run kube-scheduler's own code on the cluster of the benchmarks; see README.md."""
