//go:build before37

package main

import (
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
)

const (
	readsStartTimeOnce = false // of potential victims: it is the time of day at each comparison
	servesTaintRuleV1  = false // the scheduler lists DeviceTaintRule in an older version
)

func newInformerFactory(client clientset.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}
