"""kube-scheduler's own code on the cluster of the benchmarks; README.md says how."""
