// Package kubernetes holds the manifests that run the Collector on Kubernetes. Its tests build them as kustomize does
// and check every object against the published types.
package kubernetes
