"""Tests with a real etcd, kube-apiserver, kube-controller-manager and kube-scheduler (`make e2e`).

KUBE_BIN names the folder of binaries. Without it the tests are skipped; with KUBE_BIN_REQUIRED=1 they fail. While
writing a test: KUBE_BIN=build/kube-1.37 python -m pytest tests/e2e/control_plane/test_x.py; KUBE_KEEP=1 keeps the
folder with the logs (fixture `plane`: plane.directory).

    from tests.e2e.control_plane.lab.call_recorder import CallRecorder
    from tests.e2e.control_plane.lab.evictions import judge
    from tests.e2e.control_plane.lab.objects import budget, node, pod, priority_class, workload
    from tests.e2e.control_plane.lab.service import Service

    def test_a_pod_preempts(plane):  # a module shares one control plane (5 s); plane_of_each_etcd: with both etcds
        api = plane.api
        api.create(priority_class("high", 1000), *(node(f"n{i}", cpu="4") for i in range(5)))
        api.create(*(pod(f"low-{i}", cpu="3", node=f"n{i}") for i in range(5)))    # `node=` binds without a scheduler
        bind = {"bind": {"enabled": True}}
        with Service(plane, bind, roles=("bind",)) as service, CallRecorder(service.url) as calls:
            scheduler = plane.start_scheduler({"extenders": [service.extender(calls.url, bindVerb="bind")]})
            api.create(pod("urgent", cpu="3", priority_class="high"))
            api.wait_until(lambda: api.get("Pod", "urgent")["spec"].get("nodeName"), 20, "urgent to be bound")
            assert judge(plane.audit_events(), calls.calls).faults == []
            scheduler.stop()

ControlPlane (lab/plane.py): `api`, `url`, `kubelet` (`deletion_seconds`: how long deleted pods stay; bound pods become
Running by themselves; annotation kubelet.START_TIME sets a start time), `etcd`, `api_server`,
`controller_manager` (Process: start, stop, kill, pause, resume, log, pid, environment), `restart_api_server()`,
`compact()`, `start_scheduler(config, version="1.37" | "1.36" | "1.33" | "1.30", api_url=…, kubeconfig=…, flags=[…])`,
`kubeconfig(user, api_url)` (token for admin and system:kube-scheduler, else a client certificate),
`service_account_kubeconfig(namespace, name)` with a token file, `write_token(…)`, `audit_events()`,
`delayed_api((least, most))` -> DelayedApi: `url` for Service(api_url=…) or start_scheduler(api_url=…), and
`set_delay(0, 0.2)` (seconds, from the next watch event on).
`runtime_config=` and `feature_gates=` are those of the API server and, the gates, of its schedulers.
Schedulers, services and proxies end with the control plane; stop them in the test if the next test must not meet them.
Two schedulers: profiles with other `schedulerName`s in `config`, and pods with `schedulerName=…`.

Service (lab/service.py): `url`, `admin_url`, `admin_get(path)`, `admin_post(path, body)`, `metric(name, **labels)`,
`is_ready()`, `wait_ready()`, `extender(url, **fields)` = the entry for `extenders`, `kubeconfig`, `config_file`, and
all of Process; `name=` for a second one, `api_url=`, `kubeconfig=`, `roles=("bind", "pod-groups")`, None if applied
before.

Api (lab/api.py): create, get, find (None if absent), list, patch, patch_status, delete, apply (YAML text, file or
objects), create_namespace, request, wait_until. Kinds are "Pod" or, if not a common one, "group/version/Kind".

CallRecorder: `calls` -> ExtenderCall (time, verb, status, headers, uid, name, priority, nominated_node, nodes, victims,
answer, answered_victims), `calls_of(verb, "namespace/name")`, `clear()`.

assert_cache_is_current(service, api) (lab/cache_check.py) compares the cache with the API server, field by field.

judge (lab/evictions.py) -> Judgement: `preemptions`, `needless_preemptions`, `needless_evictions`, `wrong_victims`, and
`faults` = all of the last three as lines.

pods_of_all_kinds: a cluster of 20 nodes, `arrival(i, prefix)` and `preemptor(i, prefix)` with every constraint,
`fill_nodes`, `settle(api, name)` (bound or refused), `wait_for_budgets`, `wait_for_cache`.
ranking.best_candidates(call, pods): the nodes that kube-scheduler itself may choose among those that it sent.
"""
