// Package instrumentations runs the agents of examples/node, each under an
// instrumentation from another project, against a model server that breaks, and
// compares llm_classify's verdicts on their spans with what really happened.
package instrumentations
