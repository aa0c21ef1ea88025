package dialect

import "go.opentelemetry.io/collector/pdata/ptrace"

// Microsoft's Agent Framework for Python (scope agent_framework) writes chat, execute_tool and
// invoke_agent by the conventions. error.type is the name of a class, often one of its own that
// hides the cause; a stream that is no longer read is UNSET without anything of a response. A
// run that asks a person to approve a call returns, without a span for the call, and is UNSET;
// so is one that was cancelled. OK is that of OpenInference's processor, on each span without an
// error. Written from version 1.0 (observability.py).

func (d GenAI) readAgentFramework(span ptrace.Span, into Facts) {
	d.read(span, into)
	switch {
	case into.Run != nil:
		into.Run.ReturnsCalls = true
	case into.Tool != nil:
		withoutOK(into.Tool)
	}
}
