// Package agents knows how the agents that people run are sent through a proxy: which
// environment variables, arguments and configuration hold the base URL of a provider.
package agents
