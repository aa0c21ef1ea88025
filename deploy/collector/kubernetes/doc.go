// Package kubernetes holds what runs the Collector on Kubernetes; its tests build it as kustomize does and hold every
// object against the published types.
package kubernetes
