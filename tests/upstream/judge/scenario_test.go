package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const (
	aNode  = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"1","pods":"9"}}}`
	aPod   = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"d","uid":"p"},"spec":{"schedulerName":"default-scheduler"}}`
	twice  = aNode + "," + aNode
	within = `{"apiVersion":"v1","kind":"List","items":[` + aNode + `]}`
)

func judged(t *testing.T, items, pod string) answer {
	t.Helper()
	silence()
	var a answer
	line := judgeLine([]byte(`{"id":"a","cluster":{"items":[`+items+`]},"pod":`+pod+`,"config":null}`), false)
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAScenarioThatNoClusterHasIsAnError(t *testing.T) {
	for _, c := range []struct{ items, pod, want string }{
		{twice, aPod, "item 1: Node n1 is in the cluster twice"},
		{within, aPod, "item 0: a List within the List"},
		{aNode + "," + aPod, aPod, "pod: Pod d/p is in the cluster twice"},
		{aNode, `null`, "pod: no pod"},
		{aNode, aNode, "pod: not a Pod: /v1, Kind=Node"},
		{aNode, strings.Replace(aPod, `"spec":{`, `"spec":{"nodeName":"n1",`, 1), "pod: the pod runs on n1"},
	} {
		if a := judged(t, c.items, c.pod); a.Error != c.want || a.Expected != nil {
			t.Errorf("%q, not %q", a.Error, c.want)
		}
	}
}

func TestAConfigurationOfNullIsNone(t *testing.T) {
	if a := judged(t, aNode, aPod); a.Error != "" || a.Expected.Feasible != 1 {
		t.Errorf("%+v", a)
	}
}

// unreserved is a claim that is allocated on another node, by name, and that no pod uses.
const unreserved = `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"c","namespace":"d","uid":"c"},
	"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x","allocationMode":"ExactCount","count":1}}]}},
	"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"x.example.com","pool":"n2","device":"d"}]},
	"nodeSelector":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}]}}}}`

// claimant is a pod with that claim.
const claimant = `{"metadata":{"name":"p","namespace":"d","uid":"p"},"spec":{"schedulerName":"default-scheduler","priority":9,
	"containers":[{"name":"c","resources":{"requests":{"cpu":"1"},"claims":[{"name":"g"}]}}],
	"resourceClaims":[{"name":"g","resourceClaimName":"c"}]}}`

// PostFilter has a CycleState of its own: the dry run evicts the victim, and only then is DynamicResources asked, which
// remembers in the state it is given that the claim is not available on n1.
func TestAClaimThatOnlyTheDryRunFindsUnavailableIsNotDeallocated(t *testing.T) {
	victim := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"v","namespace":"d","uid":"v"},"spec":{"nodeName":"n1",
		"schedulerName":"default-scheduler","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}`
	const deallocated = "deallocation of ResourceClaim completed"
	for _, c := range []struct {
		items, filter string // the plugin that rejects n1 before a dry run
		deallocated   bool
	}{
		{aNode + "," + victim + "," + unreserved, "NodeResourcesFit", false},
		{aNode + "," + unreserved, "DynamicResources", true},
	} {
		a := judged(t, c.items, claimant)
		if a.Error != "" || a.Expected.Filter["n1"].Plugin != c.filter || a.Expected.PostFilter == nil {
			t.Fatalf("%s: %+v", a.Error, a.Expected)
		}
		if got := slices.Contains(a.Expected.PostFilter.Reasons, deallocated); got != c.deallocated {
			t.Errorf("%s: %v", c.filter, a.Expected.PostFilter)
		}
		if one := a.Expected.NonCandidates["n1"]; !c.deallocated && one.Plugin != "DynamicResources" {
			t.Errorf("not asked in the dry run: %v", one)
		}
	}
}
