// Package instrumentations runs the agents of examples/node, each under an
// instrumentation from another project, against a model server that breaks, and
// holds what llm_classify makes of their spans against what was really done.
package instrumentations
