package main

import (
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// configuration reads a KubeSchedulerConfiguration (defaults where raw is empty) as kube-scheduler --config does.
func configuration(raw []byte) (*config.KubeSchedulerConfiguration, error) {
	if len(raw) == 0 {
		var versioned kubeschedulerv1.KubeSchedulerConfiguration
		scheme.Scheme.Default(&versioned)
		cfg := &config.KubeSchedulerConfiguration{}
		return cfg, scheme.Scheme.Convert(&versioned, cfg, nil)
	}
	obj, gvk, err := scheme.Codecs.UniversalDecoder().Decode(raw, nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := obj.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("not a KubeSchedulerConfiguration: %s", gvk)
	}
	cfg.TypeMeta.APIVersion = gvk.GroupVersion().String()
	return cfg, validation.ValidateKubeSchedulerConfiguration(cfg)
}

// preemptionArgs returns the DefaultPreemptionArgs of a profile, the defaults if it has none.
func preemptionArgs(cfg *config.KubeSchedulerConfiguration, profile string) *config.DefaultPreemptionArgs {
	for _, p := range cfg.Profiles {
		if p.SchedulerName != profile {
			continue
		}
		for _, c := range p.PluginConfig {
			if args, ok := c.Args.(*config.DefaultPreemptionArgs); ok {
				return args
			}
		}
	}
	var versioned kubeschedulerv1.DefaultPreemptionArgs
	configv1.SetDefaults_DefaultPreemptionArgs(&versioned)
	args := &config.DefaultPreemptionArgs{}
	utilruntime.Must(scheme.Scheme.Convert(&versioned, args, nil))
	return args
}
