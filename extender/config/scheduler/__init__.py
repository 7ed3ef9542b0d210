"""kube-scheduler's own configuration: KubeSchedulerConfiguration, as a file or inline, and its version.

`schema` and `arguments` are its types, `plugins` the in-tree plugins, `expansion` the merge of plugin sets; `load`
makes of them the KubeScheduler that decisions read. `check` compares our entry of its `extenders` with our file.
"""
