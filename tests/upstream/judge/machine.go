package main

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// Candidate is a node with the victims of a preemption there.
type Candidate = preemption.Candidate

// machine is a scheduler whose cache and queue hold one scenario.
type machine struct {
	fw         framework.Framework
	nodes      []NodeInfo
	preemption *defaultpreemption.DefaultPreemption
	args       *config.DefaultPreemptionArgs
	pdbs       []*policy.PodDisruptionBudget
	pod        *v1.Pod // the very object that the queue holds, as in upstream's cycle
}

// newMachine starts upstream's own event handlers on the client's objects and waits until all of them were handled.
func newMachine(ctx context.Context, client clientset.Interface, cfg *config.KubeSchedulerConfiguration, pod *v1.Pod,
	patience time.Duration) (*machine, error) {
	factory := newInformerFactory(client)
	sched, err := scheduler.New(ctx, client, factory, nil, newRecorder,
		scheduler.WithProfiles(cfg.Profiles...), scheduler.WithParallelism(2),
		scheduler.WithComponentConfigVersion(cfg.APIVersion),
		scheduler.WithPercentageOfNodesToScore(cfg.PercentageOfNodesToScore))
	if err != nil {
		return nil, err
	}
	budgets := factory.Policy().V1().PodDisruptionBudgets().Lister()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := waitForHandlers(ctx, sched, patience); err != nil {
		return nil, err
	}
	if pod, err = factory.Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name); err != nil {
		return nil, err
	}
	m := &machine{fw: sched.Profiles[pod.Spec.SchedulerName], pod: pod}
	if m.fw == nil {
		return nil, fmt.Errorf("no profile %q", pod.Spec.SchedulerName)
	}
	if err := updateSnapshot(ctx, sched, m.fw); err != nil {
		return nil, err
	}
	if m.nodes, err = m.fw.SnapshotSharedLister().NodeInfos().List(); err != nil {
		return nil, err
	}
	if m.pdbs, err = budgets.List(labels.Everything()); err != nil {
		return nil, err
	}
	m.args = preemptionArgs(cfg, pod.Spec.SchedulerName)
	plugin, err := defaultpreemption.New(ctx, m.args, m.fw, pluginFeatures())
	if err != nil {
		return nil, err
	}
	m.preemption = any(plugin).(*defaultpreemption.DefaultPreemption) // up to 1.33 a framework.Plugin
	return m, nil
}

// newRecorder returns a recorder of Events that keeps none. Its type is an interface that has another name since 1.36.
func newRecorder[Recorder any](string) Recorder {
	return any(&events.FakeRecorder{}).(Recorder)
}

// waitForHandlers waits until the scheduler has seen all objects, and for the time given until plugins have, which register
// handlers of their own.
func waitForHandlers(ctx context.Context, sched *scheduler.Scheduler, patience time.Duration) error {
	once, cancel := context.WithCancel(ctx)
	cancel() // so that upstream asks once, without its pause of 100 ms
	for sched.WaitForHandlersSync(once) != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(200 * time.Microsecond)
	}
	time.Sleep(patience)
	return nil
}

// preEnqueue asks the plugins that may keep the pod out of the queue.
func (m *machine) preEnqueue(ctx context.Context) (string, *Status) {
	for _, pl := range m.fw.PreEnqueuePlugins() {
		if s := pl.PreEnqueue(ctx, m.pod); !s.IsSuccess() {
			return pl.Name(), s
		}
	}
	return "", nil
}

// filter includes the nominated pods.
func (m *machine) filter(ctx context.Context, state CycleState, node NodeInfo) *Status {
	return m.fw.RunFilterPluginsWithNominatedPods(ctx, state, m.pod, node)
}

func (m *machine) scores(ctx context.Context, state CycleState, feasible []NodeInfo) (map[string]scored, error) {
	out := map[string]scored{}
	if !m.fw.HasScorePlugins() {
		return out, nil
	}
	if s := m.fw.RunPreScorePlugins(ctx, state, m.pod, scorable(feasible)); !s.IsSuccess() {
		return nil, s.AsError()
	}
	list, s := m.fw.RunScorePlugins(ctx, state, m.pod, scorable(feasible))
	if !s.IsSuccess() {
		return nil, s.AsError()
	}
	for _, n := range list {
		one := scored{Plugins: map[string]int64{}, Total: n.TotalScore}
		for _, p := range n.Scores {
			one.Plugins[p.Name] = p.Score
		}
		out[n.Name] = one
	}
	return out, nil
}
