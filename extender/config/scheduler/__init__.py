"""kube-scheduler's own configuration: KubeSchedulerConfiguration, as a file or inline, and its version.

`schema` and `arguments` are its types, `plugins` the in-tree plugins, `expansion` the merge of plugin lists; `load`
turns all of it into the KubeScheduler that decisions read. `check` compares our entry of its `extenders` with our file.
"""

from extender.config.scheduler.load import (
    ASSUMED,
    SchedulerSource,
    kube_scheduler_of,
    load_kube_scheduler,
    read_configuration,
    read_scheduler,
)

__all__ = [
    "ASSUMED",
    "SchedulerSource",
    "kube_scheduler_of",
    "load_kube_scheduler",
    "read_configuration",
    "read_scheduler",
]
