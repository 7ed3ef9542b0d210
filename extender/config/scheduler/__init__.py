"""kube-scheduler's own configuration: KubeSchedulerConfiguration, as a file or inline, and its version.

`schema` and `arguments` are its types, `plugins` the in-tree plugins, `expansion` the merge of plugin sets; `load`
builds the KubeScheduler that decisions read. `check` compares our entry in its `extenders` with our file.
"""
