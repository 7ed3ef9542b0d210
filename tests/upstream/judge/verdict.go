package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// verdict is what upstream says of a scenario. Nodes are named, pods given by their UID.
type verdict struct {
	PreEnqueue     *said                `json:"preEnqueue,omitempty"`     // the pod never enters the queue
	PreFilter      *said                `json:"prefilter,omitempty"`      // only if it rejects the pod
	PreFilterNodes *[]string            `json:"prefilterNodes,omitempty"` // the nodes that a PreFilterResult leaves
	Filter         map[string]said      `json:"filter"`
	Feasible       int                  `json:"feasible"`
	Scores         map[string]scored    `json:"scores"`
	ScoreError     string               `json:"scoreError,omitempty"`
	Eligible       [2]any               `json:"eligible"` // whether the pod may preempt others, and why not
	Candidates     map[string]victims   `json:"candidates"`
	NonCandidates  map[string]said      `json:"nonCandidates"`
	DryRunError    string               `json:"dryRunError,omitempty"`
	Selected       *string              `json:"selected"`
	SelectedTies   []string             `json:"selectedTies"`
	OrderSensitive []string             `json:"orderSensitive,omitempty"` // candidates that depend on the order of the pods
	UnstableSort   []string             `json:"unstableSort,omitempty"`   // nodes whose victims Go's sort orders by chance
	Clock          []string             `json:"clock,omitempty"`          // nodes whose victims depend on the time of day
	PostFilter     *nominated           `json:"postFilter,omitempty"`
	CycleError     string               `json:"cycleError,omitempty"`    // upstream ends the cycle with this error
	Crash          string               `json:"crash,omitempty"`         // upstream panics: nothing else is worth anything
	Unsettled      []string             `json:"unsettled,omitempty"`     // keys that differed between two runs of upstream
	BudgetOrder    []string             `json:"budgetOrder,omitempty"`   // nodes whose candidate depends on the order of the budgets
	BudgetTies     []string             `json:"budgetTies,omitempty"`    // with budgetOrder: all nodes selected under some order
	BudgetChoices  map[string][]victims `json:"budgetChoices,omitempty"` // with budgetOrder: their candidates under the orders tried
}

// said is a status of a plugin.
type said struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

// scored holds the weighted, normalised scores of a node.
type scored struct {
	Plugins map[string]int64 `json:"plugins"`
	Total   int64            `json:"total"`
}

// victims are the pods that a preemption on a node evicts, in upstream's order.
type victims struct {
	Victims          []string `json:"victims"`
	NumPDBViolations int64    `json:"numPDBViolations"`
}

// nominated is the result of PostFilter.
type nominated struct {
	Code          string   `json:"code"`
	Reasons       []string `json:"reasons"`
	NominatedNode string   `json:"nominatedNode"`
}

func newVerdict() *verdict {
	return &verdict{Filter: map[string]said{}, Scores: map[string]scored{}, Candidates: map[string]victims{},
		NonCandidates: map[string]said{}, SelectedTies: []string{}}
}

// judge asks upstream twice, the second time with the pods listed the other way round. What must not depend on their
// order but differs was asked before plugins had seen all objects (then it is asked again, with more patience) or is not
// determined.
func judge(ctx context.Context, s *scenario) (*verdict, error) {
	var there, back *verdict
	var patience time.Duration
	for _, patience = range []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond} {
		var err error
		if there, err = judgeOnce(ctx, s, false, patience); err != nil {
			return nil, err
		}
		if back, err = judgeOnce(ctx, s, true, patience); err != nil {
			return nil, err
		}
		if there.Unsettled = differing(there, back); there.Unsettled == nil {
			break
		}
	}
	names := map[string]bool{}
	for _, v := range []*verdict{there, back} {
		for name := range v.Candidates {
			names[name] = true
		}
	}
	for name := range names {
		if !reflect.DeepEqual(there.Candidates[name], back.Candidates[name]) {
			there.OrderSensitive = append(there.OrderSensitive, name)
		}
	}
	slices.Sort(there.OrderSensitive)
	if there.Feasible > 0 || there.CycleError != "" {
		return there, nil
	}
	return there, withMachine(ctx, s, false, patience, func(ctx context.Context, m *machine) error {
		return m.preempt(ctx, there)
	})
}

func judgeOnce(ctx context.Context, s *scenario, reversed bool, patience time.Duration) (v *verdict, err error) {
	err = withMachine(ctx, s, reversed, patience, func(ctx context.Context, m *machine) error {
		v, err = m.cycle(ctx)
		return err
	})
	return v, err
}

// withMachine asks a new scheduler that holds the scenario.
func withMachine(parent context.Context, s *scenario, reversed bool, patience time.Duration,
	ask func(context.Context, *machine) error) error {
	ctx, cancel := context.WithTimeout(parent, time.Minute)
	defer cancel()
	o, client, err := s.prepare(reversed)
	if err != nil {
		return err
	}
	cfg, err := configuration(given(s.Config))
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	m, err := newMachine(ctx, client, cfg, o.incoming, patience)
	if err != nil {
		return err
	}
	m.listBudgets(o.rest)
	if err := inOrder(m.nodes, o.pods); err != nil {
		return err
	}
	return ask(ctx, m)
}

// inOrder makes sure that the pods of each node are held in the order in which they were listed.
func inOrder(nodes []NodeInfo, pods []*v1.Pod) error {
	want := map[string][]string{}
	for _, p := range pods {
		if !terminated(p) {
			want[p.Spec.NodeName] = append(want[p.Spec.NodeName], string(p.UID))
		}
	}
	for _, n := range nodes {
		var got []string
		for _, p := range podsOf(n) {
			got = append(got, string(p.UID))
		}
		if !slices.Equal(got, want[n.Node().Name]) {
			return fmt.Errorf("node %s: pods were not taken in their order", n.Node().Name)
		}
	}
	return nil
}

// differing returns the keys that do not depend on the order of the pods and differ all the same.
func differing(a, b *verdict) (out []string) {
	for key, pair := range map[string][2]any{
		"prefilter": {a.PreFilter, b.PreFilter}, "prefilterNodes": {a.PreFilterNodes, b.PreFilterNodes},
		"filter": {a.Filter, b.Filter}, "scores": {a.Scores, b.Scores}, "scoreError": {a.ScoreError, b.ScoreError},
		"eligible": {a.Eligible, b.Eligible}, "nonCandidates": {stableNonCandidates(a), stableNonCandidates(b)},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// stableNonCandidates returns the nonCandidates that Go's unstable sort cannot change.
func stableNonCandidates(v *verdict) map[string]said {
	out := map[string]said{}
	for name, s := range v.NonCandidates {
		if !slices.Contains(v.UnstableSort, name) {
			out[name] = s
		}
	}
	return out
}
