//go:build !before32

package main

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// nodeToStatus holds the status of each node, with one for all that are absent from it.
type nodeToStatus = framework.NodeToStatus

func newNodeToStatus() *nodeToStatus { return framework.NewDefaultNodeToStatus() }

// leftOut is the status of nodes that a PreFilterResult of these plugins does not name.
func leftOut(plugins []string) *Status {
	return newStatus(Unresolvable, fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", plugins))
}

// updateSnapshot shows the cache to the plugins.
func updateSnapshot(ctx context.Context, sched *scheduler.Scheduler, fw framework.Framework) error {
	return sched.Cache.UpdateSnapshot(klog.FromContext(ctx), fw.SnapshotSharedLister().(*cache.Snapshot))
}

func (m *machine) eligible(ctx context.Context, nominated *Status) (bool, string) {
	return m.preemption.PodEligibleToPreemptOthers(ctx, m.pod, nominated)
}

// potential returns the nodes that a preemption might help.
func (m *machine) potential(statuses *nodeToStatus) ([]NodeInfo, error) {
	return statuses.NodesForStatusCode(m.fw.SnapshotSharedLister().NodeInfos(), Unschedulable)
}

// dryRun tries every potential node: one more candidate is asked for than there can be, so it never stops early.
func (m *machine) dryRun(ctx context.Context, state CycleState, nodes []NodeInfo) ([]Candidate, *nodeToStatus, error) {
	return m.preemption.Evaluator.DryRunPreemption(ctx, state, m.pod, nodes, m.pdbs, 0, int32(len(nodes)+1))
}

func (m *machine) choose(ctx context.Context, candidates []Candidate) string {
	return m.preemption.Evaluator.SelectCandidate(ctx, candidates).Name()
}

// postFilter runs the real thing: it evicts from the fake API server, and draws among equals.
func (m *machine) postFilter(ctx context.Context, state CycleState, statuses *nodeToStatus) (string, *Status) {
	result, status := m.fw.RunPostFilterPlugins(ctx, state, m.pod, statuses)
	if result == nil || result.NominatingInfo == nil {
		return "", status
	}
	return result.NominatedNodeName, status
}
