package main

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"

	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// otherBudgetOrders is how many orders of the budgets are tried beside that of the List.
const otherBudgetOrders = 16

// listBudgets puts the budgets into the order of the List: upstream takes them in the order of a Go map, which is any.
func (m *machine) listBudgets(rest []runtime.Object) {
	place := map[string]int{}
	for i, o := range rest {
		if b, ok := o.(*policy.PodDisruptionBudget); ok {
			place[b.Namespace+"/"+b.Name] = i
		}
	}
	slices.SortFunc(m.pdbs, func(a, b *policy.PodDisruptionBudget) int {
		return place[a.Namespace+"/"+a.Name] - place[b.Namespace+"/"+b.Name]
	})
}

// budgetOrders is what the dry run says under several orders of the budgets.
type budgetOrders struct {
	listed  map[string]victims // the candidates under the order of the List
	differs map[string]bool    // nodes whose candidate is another one under some order
	ties    map[string]bool    // nodes that upstream may choose under some order
	choices map[string][]victims
}

// noteBudgetOrders notes the nodes whose candidate is another one under some other order of the budgets.
func (m *machine) noteBudgetOrders(ctx context.Context, state CycleState, potential []NodeInfo, v *verdict) {
	listed := m.pdbs
	if len(listed) < 2 {
		return
	}
	defer func() { m.pdbs = listed }()
	orders := budgetOrders{v.Candidates, map[string]bool{}, map[string]bool{}, map[string][]victims{}}
	for name, one := range v.Candidates {
		orders.choices[name] = []victims{one}
	}
	for _, name := range v.SelectedTies {
		orders.ties[name] = true
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range otherBudgetOrders {
		m.pdbs = slices.Clone(listed)
		if i == 0 {
			slices.Reverse(m.pdbs)
		} else {
			random.Shuffle(len(m.pdbs), func(a, b int) { m.pdbs[a], m.pdbs[b] = m.pdbs[b], m.pdbs[a] })
		}
		candidates, _, _ := m.dryRun(ctx, state, potential)
		if orders.add(candidates) {
			for _, name := range m.ties(ctx, candidates) {
				orders.ties[name] = true
			}
		}
	}
	if len(orders.differs) > 0 {
		orders.note(v)
	}
}

// add compares the candidates under one order, and reports whether any differs from the List's.
func (o *budgetOrders) add(candidates []Candidate) bool {
	differs, seen := false, map[string]bool{}
	for _, c := range candidates {
		name, one := c.Name(), victimsOf(c)
		seen[name] = true
		if old, ok := o.listed[name]; !ok || !reflect.DeepEqual(old, one) {
			o.differs[name] = true
			differs = true
		}
		if !slices.ContainsFunc(o.choices[name], func(x victims) bool { return reflect.DeepEqual(x, one) }) {
			o.choices[name] = append(o.choices[name], one)
		}
	}
	for name := range o.listed {
		if !seen[name] {
			o.differs[name] = true
			differs = true
		}
	}
	return differs
}

func (o *budgetOrders) note(v *verdict) {
	v.BudgetOrder = sortedKeys(o.differs)
	v.BudgetTies = sortedKeys(o.ties)
	v.BudgetChoices = map[string][]victims{}
	// chance, as where Go's sort is unstable: readers that know that key exempt these nodes
	for _, name := range v.BudgetOrder {
		v.BudgetChoices[name] = o.choices[name]
		if !slices.Contains(v.UnstableSort, name) {
			v.UnstableSort = append(v.UnstableSort, name)
		}
	}
	slices.Sort(v.UnstableSort)
}
