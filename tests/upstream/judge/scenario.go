package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// scenario is a cluster, a pod to schedule in it, and a KubeSchedulerConfiguration (none: the default profile).
type scenario struct {
	ID       string `json:"id"`
	Category string `json:"category"`
	Cluster  struct {
		Items []json.RawMessage `json:"items"`
	} `json:"cluster"`
	Pod    json.RawMessage `json:"pod"`
	Config json.RawMessage `json:"config"`
}

// objects are those of a scenario, each kind in the order of its List.
type objects struct {
	pods     []*v1.Pod
	nodes    []*v1.Node
	rest     []runtime.Object
	incoming *v1.Pod
}

// decode returns new objects at each call: upstream changes some of them.
func (s *scenario) decode() (*objects, error) {
	o := &objects{incoming: &v1.Pod{}}
	decoder := scheme.Codecs.UniversalDeserializer()
	for i, raw := range s.Cluster.Items {
		item, _, err := decoder.Decode(served(raw), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		switch item := item.(type) {
		case *v1.Pod:
			o.pods = append(o.pods, item)
		case *v1.Node:
			o.nodes = append(o.nodes, item)
		default:
			o.rest = append(o.rest, item)
		}
	}
	if err := json.Unmarshal(s.Pod, o.incoming); err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	return o, nil
}

var olderTaintRule = regexp.MustCompile(`"apiVersion":\s*"resource\.k8s\.io/(v1beta2|v1alpha3)"`)

// served returns the object as an API server answers it in the version that the scheduler lists: the fake clientset converts
// none. DeviceTaintRule has the same fields in all versions, but for the selectors by class and CEL of v1alpha3.
func served(raw []byte) []byte {
	if servesTaintRuleV1 && bytes.Contains(raw, []byte(`"DeviceTaintRule"`)) {
		return olderTaintRule.ReplaceAll(raw, []byte(`"apiVersion":"resource.k8s.io/v1"`))
	}
	return raw
}
