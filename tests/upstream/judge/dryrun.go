package main

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
)

// dryRunAll notes what a preemption on each node that it might help would evict, and which nodes upstream may choose.
func (m *machine) dryRunAll(ctx context.Context, state CycleState, statuses *nodeToStatus, v *verdict) error {
	potential, err := m.potential(statuses)
	if err != nil || len(potential) == 0 {
		return err
	}
	candidates, failed, err := m.dryRun(ctx, state, potential)
	if err != nil {
		v.DryRunError = err.Error()
	}
	for _, c := range candidates {
		v.Candidates[c.Name()] = victimsOf(c)
	}
	for _, n := range potential {
		name := n.Node().Name
		if _, ok := v.Candidates[name]; !ok {
			v.NonCandidates[name] = say(failed.Get(name))
		}
		tied, clock := ambiguous(n, m.pod)
		if tied {
			v.UnstableSort = append(v.UnstableSort, name)
		}
		if clock {
			v.Clock = append(v.Clock, name)
		}
	}
	slices.Sort(v.UnstableSort)
	slices.Sort(v.Clock)
	if v.SelectedTies = m.ties(ctx, candidates); len(v.SelectedTies) > 0 {
		v.Selected = &v.SelectedTies[0]
	}
	m.noteBudgetOrders(ctx, state, potential, v)
	return nil
}

func victimsOf(c Candidate) victims {
	out := victims{NumPDBViolations: c.Victims().NumPDBViolations, Victims: []string{}}
	for _, p := range c.Victims().Pods {
		out.Victims = append(out.Victims, string(p.UID))
	}
	return out
}

// ties returns every node that upstream may choose. It draws among equals by the order of a Go map, which for two entries
// gives each at least one chance in eight.
func (m *machine) ties(ctx context.Context, candidates []Candidate) []string {
	out := []string{}
	if len(candidates) == 0 {
		return out
	}
	best := m.choose(ctx, candidates)
	winner := candidates[slices.IndexFunc(candidates, func(c Candidate) bool { return c.Name() == best })]
	for _, c := range candidates {
		if c.Name() == best || m.everChosen(ctx, c, winner) {
			out = append(out, c.Name())
		}
	}
	slices.Sort(out)
	return out
}

func (m *machine) everChosen(ctx context.Context, c, winner Candidate) bool {
	for range 200 {
		if m.choose(ctx, []Candidate{winner, c}) == c.Name() {
			return true
		}
	}
	return false
}

// ambiguous reports whether the node has more than 12 potential victims of which some tie (Go's sort.Slice keeps the order of
// ties only up to 12), and whether two of equal priority have no start time (the clock goes on while they are compared).
func ambiguous(n NodeInfo, pod *v1.Pod) (unstable, clock bool) {
	type rank struct {
		priority int32
		start    int64
	}
	count, seen, tie := 0, map[rank]bool{}, false
	for _, p := range podsOf(n) {
		if corev1helpers.PodPriority(p) >= corev1helpers.PodPriority(pod) {
			continue
		}
		r := rank{corev1helpers.PodPriority(p), -1}
		if p.Status.StartTime != nil {
			r.start = p.Status.StartTime.UnixNano()
		}
		count++
		// read once: for each pod in the order of the list, so that no two of them tie
		clock = clock || seen[r] && r.start == -1 && !readsStartTimeOnce
		tie = tie || seen[r] && !(r.start == -1 && readsStartTimeOnce)
		seen[r] = true
	}
	return count > 12 && tie, clock
}
