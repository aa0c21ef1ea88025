// Package fleet tests llm_classify beyond one process: gateways, classifiers and
// brokers as processes of their own on loopback, with the configurations that are
// shipped, while parts of them are killed.
package fleet
