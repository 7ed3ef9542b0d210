//go:build before31

package main

import (
	"context"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// preFilter returns upstream's status and the nodes it is limited to (nil: all). The plugins that limited them are not told.
func (m *machine) preFilter(ctx context.Context, state CycleState) (status *Status, nodes, limiting []string) {
	result, status := m.fw.RunPreFilterPlugins(ctx, state, m.pod)
	if result.AllNodes() {
		return status, nil, nil
	}
	return status, sortedKeys(result.NodeNames), nil
}

func pluginFeatures() feature.Features {
	return feature.Features{EnablePodDisruptionConditions: utilfeature.DefaultFeatureGate.Enabled(features.PodDisruptionConditions)}
}
