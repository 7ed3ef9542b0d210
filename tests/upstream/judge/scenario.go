package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
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

// prepare returns the objects, and a fake API server that has them. A panic here is not upstream's in a scheduling cycle.
func (s *scenario) prepare(reversed bool) (o *objects, client *fake.Clientset, err error) {
	defer func() {
		if text := recover(); text != nil {
			err = fmt.Errorf("the scenario cannot be prepared: %v", text)
		}
	}()
	if o, err = s.decode(); err != nil {
		return nil, nil, err
	}
	if reversed {
		slices.Reverse(o.pods)
	}
	return o, apiServer(o), nil
}

// decode returns new objects at each call: upstream changes some of them.
func (s *scenario) decode() (*objects, error) {
	o := &objects{}
	seen := map[string]bool{}
	decoder := scheme.Codecs.UniversalDeserializer()
	for i, raw := range s.Cluster.Items {
		item, kind, err := decoder.Decode(served(raw), nil, nil)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if meta.IsListType(item) {
			return nil, fmt.Errorf("item %d: a %s within the List", i, kind.Kind)
		}
		if err := addOnce(seen, kind.GroupKind(), item); err != nil {
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
	var err error
	if o.incoming, err = s.incoming(); err == nil {
		err = addOnce(seen, v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), o.incoming)
	}
	if err != nil {
		return nil, fmt.Errorf("pod: %w", err)
	}
	return o, nil
}

// addOnce refuses a second object of the same kind and name, which no API server holds.
func addOnce(seen map[string]bool, kind schema.GroupKind, item runtime.Object) error {
	object, err := meta.Accessor(item)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s %s", kind, cache.MetaObjectToName(object))
	if seen[name] {
		return fmt.Errorf("%s is in the cluster twice", name)
	}
	seen[name] = true
	return nil
}

// incoming returns the pod to schedule.
func (s *scenario) incoming() (*v1.Pod, error) {
	if given(s.Pod) == nil {
		return nil, errors.New("no pod")
	}
	pod := &v1.Pod{}
	if err := json.Unmarshal(s.Pod, pod); err != nil {
		return nil, err
	}
	if pod.Kind != "" && pod.Kind != "Pod" || pod.APIVersion != "" && pod.APIVersion != "v1" {
		return nil, fmt.Errorf("not a Pod: %s", pod.GroupVersionKind())
	}
	if pod.Spec.NodeName != "" {
		return nil, fmt.Errorf("the pod runs on %s", pod.Spec.NodeName)
	}
	return pod, nil
}

// given returns a value, nil where it is null.
func given(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
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
