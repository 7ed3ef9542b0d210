package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
)

// cycle asks everything that a scheduling cycle asks, of all nodes, up to PostFilter.
func (m *machine) cycle(ctx context.Context) (*verdict, error) {
	v := newVerdict()
	if plugin, status := m.preEnqueue(ctx); status != nil {
		v.PreEnqueue = &said{status.Code().String(), plugin, sorted(status.Reasons())}
	}

	// 1. PreFilter and Filter.
	state, statuses := newCycleState(), newNodeToStatus()
	feasible, preFilterError := m.findNodes(ctx, state, statuses, v)
	if preFilterError {
		v.Eligible = [2]any{true, ""}
		return v, nil
	}
	v.Feasible = len(feasible)

	// 2. The dry run of a preemption on all nodes that it might help.
	ok, message := m.eligible(ctx, statuses.Get(m.pod.Status.NominatedNodeName))
	v.Eligible = [2]any{ok, message}
	if err := m.dryRunAll(ctx, state, statuses, v); err != nil {
		return nil, err
	}

	// 3. Scores.
	if len(feasible) > 0 {
		scores, err := m.scores(ctx, state, feasible)
		if err != nil {
			v.ScoreError = err.Error()
		} else {
			v.Scores = scores
		}
	}
	return v, nil
}

// findNodes notes what PreFilter and Filter say, and returns the feasible nodes; failed: whether PreFilter itself failed.
func (m *machine) findNodes(ctx context.Context, state CycleState, statuses *nodeToStatus, v *verdict) (
	feasible []NodeInfo, failed bool) {
	status, allowed, limiting := m.preFilter(ctx, state)
	if !status.IsSuccess() {
		one := say(status)
		v.PreFilter = &one
		if !status.IsRejected() {
			v.CycleError = status.AsError().Error()
			return nil, true
		}
		statuses.SetAbsentNodesStatus(status)
		return nil, false
	}
	if allowed != nil {
		v.PreFilterNodes = &allowed
		statuses.SetAbsentNodesStatus(leftOut(limiting))
	}
	for _, n := range m.nodes {
		name := n.Node().Name
		if allowed != nil && !slices.Contains(allowed, name) {
			v.Filter[name] = say(statuses.AbsentNodesStatus())
			continue
		}
		status := m.filter(ctx, state, n)
		v.Filter[name] = say(status)
		switch {
		case status.IsSuccess():
			feasible = append(feasible, n)
		case status.Code() == Error:
			v.CycleError = status.AsError().Error()
		default:
			statuses.Set(name, status)
		}
	}
	return feasible, false
}

var placement = regexp.MustCompile(`on node \S+, preempting \d+ victims`)

// preempt runs the real PostFilter of a pod that no node takes, which must agree with the dry run. It evicts from the fake API
// server, and the machine is one that was asked nothing before, as in upstream's cycle: DynamicResources, whose PostFilter
// comes first, remembers in the CycleState which claims a Filter found unavailable, and sums of requests may grow with each
// PreFilter. Upstream draws among equals: since 1.37 its reason names the node, and is rewritten for the selected one.
func (m *machine) preempt(ctx context.Context, v *verdict) error {
	if m.samples() {
		return nil
	}
	state, statuses := newCycleState(), newNodeToStatus()
	_, _ = m.findNodes(ctx, state, statuses, newVerdict())
	node, status := m.postFilter(ctx, state, statuses)
	v.PostFilter = &nominated{status.Code().String(), sorted(status.Reasons()), node}
	if node == "" {
		return nil
	}
	if _, ok := v.Candidates[node]; !ok {
		return fmt.Errorf("upstream nominated %s, which is not among its candidates", node)
	}
	// with budgetOrder upstream may have drawn another order of the budgets
	if len(v.BudgetOrder) == 0 && !slices.Contains(v.SelectedTies, node) {
		return fmt.Errorf("upstream nominated %s, not one of %v", node, v.SelectedTies)
	}
	v.PostFilter.NominatedNode = *v.Selected
	selected := fmt.Sprintf("on node %s, preempting %d victims", *v.Selected, len(v.Candidates[*v.Selected].Victims))
	for i, reason := range v.PostFilter.Reasons {
		v.PostFilter.Reasons[i] = placement.ReplaceAllString(reason, selected)
	}
	return nil
}

// samples reports whether the configuration lets upstream stop before it has tried all nodes, from a random one on.
func (m *machine) samples() bool {
	n := int32(len(m.nodes))
	return m.args.MinCandidateNodesAbsolute < n && m.args.MinCandidateNodesPercentage < 100
}

func say(s *Status) said {
	if s == nil { // upstream's other way of saying Success
		s = newStatus(Success)
	}
	return said{s.Code().String(), s.Plugin(), sorted(s.Reasons())}
}

// sorted returns a sorted copy, which is never nil.
func sorted(in []string) []string {
	out := append([]string{}, in...)
	slices.Sort(out)
	return out
}

// sortedKeys returns the keys of a map; never nil.
func sortedKeys[T ~map[string]V, V any](set T) []string {
	out := []string{}
	for key := range set {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}
