package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// apiServer returns a fake one that lists pods and nodes in the order given, and shows no change.
func apiServer(o *objects) *fake.Clientset {
	all := append([]runtime.Object{}, o.rest...)
	podList, nodeList := &v1.PodList{}, &v1.NodeList{}
	for _, n := range o.nodes {
		all = append(all, n)
		nodeList.Items = append(nodeList.Items, *n)
	}
	for _, p := range append(o.pods[:len(o.pods):len(o.pods)], o.incoming) {
		all = append(all, p)
		if !terminated(p) {
			podList.Items = append(podList.Items, *p)
		}
	}
	client := fake.NewSimpleClientset(all...)
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, podList.DeepCopy(), nil
	})
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nodeList.DeepCopy(), nil
	})
	client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
		return true, watch.NewRaceFreeFake(), nil // nothing changes after the list
	})
	return client
}

// terminated reports whether the field selector of the scheduler's informer leaves the pod out.
func terminated(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}
