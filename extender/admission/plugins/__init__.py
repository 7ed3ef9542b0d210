"""Admission plugins that an API server enables by default, as far as they change or refuse what scheduling reads.

One module per plugin, with upstream's Admit and Validate as `admit` and `validate`. Mutating plugins run in the order
of kubeapiserver/options/plugins.go (v1.37), validating plugins after the validation of the object.

Not mirrored:

- TaintNodesByCondition taints a new node as not ready, until its kubelet reports. A node in a cluster file stands for
  one that is ready, unless its taints say otherwise.
- PodSecurity refuses pods by labels of their namespace, and ServiceAccount those without their account.
- NamespaceLifecycle refuses objects of a missing namespace: cluster files rarely have namespaces.
- Webhooks, admission policies, and plugins that are off by default (PodNodeSelector, ExtendedResourceToleration).
"""
