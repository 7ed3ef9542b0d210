//go:build !before37

package main

import (
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
)

const (
	readsStartTimeOnce = true // of potential victims, which orders those that have not started
	servesTaintRuleV1  = true // resource.k8s.io/v1 is the only version of DeviceTaintRule that is served
)

func newInformerFactory(client clientset.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}
