//go:build before34 && !before32

package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

func pluginFeatures() feature.Features {
	return feature.Features{EnableAsyncPreemption: utilfeature.DefaultFeatureGate.Enabled(features.SchedulerAsyncPreemption)}
}
