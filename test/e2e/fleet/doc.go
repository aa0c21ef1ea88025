// Package fleet tests llm_classify in several processes: gateways, classifiers and
// brokers run as processes of their own on loopback, with the shipped configurations,
// while parts of them are killed.
package fleet
