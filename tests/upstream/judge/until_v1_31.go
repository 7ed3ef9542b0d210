//go:build before32

package main

import (
	"context"
	"reflect"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// nodeToStatus has the shape of later versions, and the meaning of these: a map in which nodes may be absent. A PreFilter
// that rejects is entered for every node; nodes left out by a PreFilterResult are not entered at all.
type nodeToStatus struct {
	explicit framework.NodeToStatusMap
	absent   *Status
	all      bool
}

func newNodeToStatus() *nodeToStatus {
	return &nodeToStatus{explicit: framework.NodeToStatusMap{}}
}

// leftOut is the status of nodes that a PreFilterResult of these plugins does not name: without a reason.
func leftOut([]string) *Status { return newStatus(Unresolvable) }

// SetAbsentNodesStatus sets the status of the nodes that have none: a PreFilter's has reasons, leftOut has not.
func (m *nodeToStatus) SetAbsentNodesStatus(s *Status) { m.absent, m.all = s, len(s.Reasons()) > 0 }

// AbsentNodesStatus returns that status.
func (m *nodeToStatus) AbsentNodesStatus() *Status { return m.absent }

// Set sets the status of a node.
func (m *nodeToStatus) Set(node string, s *Status) { m.explicit[node] = s }

// Get returns the status of a node, nil where upstream's map has none.
func (m *nodeToStatus) Get(node string) *Status {
	if s, ok := m.explicit[node]; ok || !m.all {
		return s
	}
	return m.absent
}

// of returns upstream's map.
func (m *nodeToStatus) of(nodes []NodeInfo) framework.NodeToStatusMap {
	out := framework.NodeToStatusMap{}
	for _, n := range nodes {
		if s := m.Get(n.Node().Name); s != nil {
			out[n.Node().Name] = s
		}
	}
	return out
}

// updateSnapshot shows the cache to the plugins. The type of the snapshot is in an internal package in these versions.
func updateSnapshot(ctx context.Context, sched *scheduler.Scheduler, fw framework.Framework) error {
	update := reflect.ValueOf(sched.Cache).MethodByName("UpdateSnapshot")
	out := update.Call([]reflect.Value{reflect.ValueOf(klog.FromContext(ctx)), reflect.ValueOf(fw.SnapshotSharedLister())})
	err, _ := out[0].Interface().(error)
	return err
}

func (m *machine) eligible(_ context.Context, nominated *Status) (bool, string) {
	return m.preemption.PodEligibleToPreemptOthers(m.pod, nominated)
}

// potential returns the nodes that a preemption might help.
func (m *machine) potential(statuses *nodeToStatus) (out []NodeInfo, _ error) {
	for _, n := range m.nodes {
		if statuses.Get(n.Node().Name).Code() == Unschedulable {
			out = append(out, n)
		}
	}
	return out, nil
}

func (m *machine) evaluator(state CycleState) *preemption.Evaluator {
	factory := m.fw.SharedInformerFactory()
	return &preemption.Evaluator{PluginName: m.preemption.Name(), Handler: m.fw, PodLister: factory.Core().V1().Pods().Lister(),
		PdbLister: factory.Policy().V1().PodDisruptionBudgets().Lister(), State: state, Interface: m.preemption}
}

// dryRun tries every potential node: one more candidate is asked for than there can be, so it never stops early.
func (m *machine) dryRun(ctx context.Context, state CycleState, nodes []NodeInfo) ([]Candidate, *nodeToStatus, error) {
	candidates, failed, err := m.evaluator(state).DryRunPreemption(ctx, m.pod, nodes, m.pdbs, 0, int32(len(nodes)+1))
	return candidates, &nodeToStatus{explicit: failed}, err
}

func (m *machine) choose(ctx context.Context, candidates []Candidate) string {
	return m.evaluator(nil).SelectCandidate(ctx, candidates).Name()
}

// postFilter runs the real thing: it evicts from the fake API server, and draws among equals.
func (m *machine) postFilter(ctx context.Context, state CycleState, statuses *nodeToStatus) (string, *Status) {
	result, status := m.fw.RunPostFilterPlugins(ctx, state, m.pod, statuses.of(m.nodes))
	if result == nil || result.NominatingInfo == nil {
		return "", status
	}
	return result.NominatedNodeName, status
}
