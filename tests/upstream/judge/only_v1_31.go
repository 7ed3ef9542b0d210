//go:build before32 && !before31

package main

import "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

func pluginFeatures() feature.Features { return feature.Features{} }
