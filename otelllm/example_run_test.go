package otelllm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelllm/otelllm-go/otelllm"
	"github.com/otelllm/otelllm-go/otelllm/classify"
)

// The diagnosis of a run says whether it is safe to try again.
func ExampleStartRun() {
	server := model(true, tool) // the connection breaks in the middle of a tool call
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithConversationID("conversation-7"), otelllm.WithToolsRecorded())
	err := ask(ctx, client, server.URL)
	if err != nil {
		d := run.Diagnosis()
		fmt.Println(d.Class, d.Cause, d.Phase)
		fmt.Println(d.Retry.Safety == classify.SafeAutoRetry, d.Retry.Reason)
	}
	run.End(err)
	// Output:
	// stream_interrupted body_truncated tool_input
	// true incomplete_tool_input
}

// The first verdicts need no Collector: the client writes them itself.
func ExampleWithVerdicts() {
	server := model(true, tool)
	defer server.Close()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithTracerProvider(provider), otelllm.WithVerdicts(), otelllm.WithToolsRecorded())
	run.End(ask(ctx, client, server.URL))
	show(spans, "llm.run.outcome", "llm.failure.class", "llm.retry.safety", "llm.classification.trigger")
	// Output:
	// chat gpt-5
	//   llm.failure.class stream_interrupted
	//   llm.retry.safety safe_auto_retry
	//   llm.classification.trigger client
	// invoke_agent coder
	//   llm.run.outcome failed
	//   llm.failure.class stream_interrupted
	//   llm.retry.safety safe_auto_retry
	//   llm.classification.trigger client
}

// A deliberate end is not a broken connection.
func ExampleWithAbort() {
	server := silentModel()
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	ctx, abort := otelllm.WithAbort(context.Background())
	ctx, run := otelllm.StartRun(ctx, "coder")
	go abort(otelllm.AbortUser, "stop_button")
	err := ask(ctx, client, server.URL)
	run.End(err)

	d := run.Diagnosis()
	fmt.Println(errors.Is(err, context.Canceled))
	fmt.Println(d.Outcome, d.Class, d.Cause, d.Retry.Safety)
	// Output:
	// true
	// aborted local_abort user no_retry
}

// After a failure the plan says what ran, and how to go on.
func ExampleRun_Plan() {
	server := model(true)
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
	ctx, run := otelllm.StartRun(context.Background(), "coder")

	toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "apply_patch", Effect: otelllm.EffectNonIdempotent})
	tool.End(applyPatch(toolCtx))
	tool.RecordOutputSent()

	err := ask(ctx, client, server.URL)
	fmt.Println(run.Plan())
	run.End(err)
	// Output:
	// Already done: apply_patch (call_1) ran, with the output that you have. Do not call it again. Ask a person before anything is sent (tool_side_effect). Go on from the conversation, with every output that exists.
}

// What is still open when a process goes down is recorded as aborted by the shutdown.
func ExampleShutdown() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	_, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithTracerProvider(provider))

	_ = otelllm.Shutdown(context.Background())
	_ = provider.Shutdown(context.Background())
	fmt.Println(run.Diagnosis().Outcome, run.Diagnosis().Cause)
	// Output:
	// aborted shutdown
}

// A tool is started with what it may do, and ends with how it went. After this one no
// retry that would repeat it is safe.
func ExampleStartTool() {
	server := model(true)
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}
	ctx, run := otelllm.StartRun(context.Background(), "coder")

	toolCtx, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "apply_patch", Effect: otelllm.EffectNonIdempotent})
	err := applyPatch(toolCtx)
	tool.End(err)
	tool.RecordOutputSent() // where the output is sent by itself, outside of the next request

	err = ask(ctx, client, server.URL)
	d := run.Diagnosis()
	fmt.Println(d.Class, d.Retry.Safety, d.Retry.Reason)
	run.End(err)
	// Output:
	// stream_interrupted user_confirmed_retry tool_side_effect
}

func applyPatch(context.Context) error { return nil }

// Done ends the run with the function's error, and with a panic.
func ExampleRun_Done() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))

	turn := func(ctx context.Context, answer func(context.Context) error) (err error) {
		ctx, run := otelllm.StartRun(ctx, "coder", otelllm.WithTracerProvider(provider), otelllm.WithVerdicts())
		defer run.Done(&err)
		return answer(ctx)
	}

	_ = turn(context.Background(), func(context.Context) error { return nil })
	func() {
		defer func() { fmt.Println("still a panic:", recover()) }()
		_ = turn(context.Background(), func(context.Context) error { panic("index out of range") })
	}()
	show(spans, "llm.run.outcome", "error.type")
	// Output:
	// still a panic: index out of range
	// invoke_agent coder
	//   llm.run.outcome succeeded
	// invoke_agent coder
	//   llm.run.outcome failed
	//   error.type panic
}

// Done ends the tool with the function's error, and with a panic.
func ExampleTool_Done() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithTracerProvider(provider))

	execute := func(ctx context.Context, call otelllm.ToolCall) (err error) {
		ctx, tool := otelllm.StartTool(ctx, call)
		defer tool.Done(&err)
		return applyPatch(ctx)
	}
	err := execute(ctx, otelllm.ToolCall{ID: "call_1", Name: "apply_patch", Effect: otelllm.EffectNonIdempotent})
	run.End(err)
	show(spans, "llm.tool.outcome")
	// Output:
	// execute_tool apply_patch
	//   llm.tool.outcome succeeded
	// invoke_agent coder
}

// The error says how a tool went. An error of the tool's own is a failure.
func ExampleTool_End() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	llm := otelllm.New(otelllm.WithTracerProvider(provider))

	for _, err := range []error{
		nil,
		fmt.Errorf("no field %q: %w", "path", otelllm.ErrToolInvalidInput),
		otelllm.ErrToolRejected,
		context.DeadlineExceeded,
		errors.New("disk full"),
	} {
		_, tool := llm.StartTool(context.Background(), otelllm.ToolCall{Name: "write_file", Effect: otelllm.EffectIdempotent})
		tool.End(err)
	}
	show(spans, "llm.tool.outcome")
	// Output:
	// execute_tool write_file
	//   llm.tool.outcome succeeded
	// execute_tool write_file
	//   llm.tool.outcome invalid_input
	// execute_tool write_file
	//   llm.tool.outcome rejected
	// execute_tool write_file
	//   llm.tool.outcome timed_out
	// execute_tool write_file
	//   llm.tool.outcome failed
}

// A tool that failed before it did anything may run again.
func ExampleFailedBeforeEffect() {
	refused := errors.New("the bank refused the connection")
	for _, err := range []error{refused, otelllm.FailedBeforeEffect(refused)} {
		ctx, run := otelllm.StartRun(context.Background(), "clerk")
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{ID: "call_1", Name: "pay", Effect: otelllm.EffectNonIdempotent})
		tool.End(err)
		run.End(err)
		d := run.Diagnosis()
		fmt.Println(d.Class, d.Retry.Safety, d.Retry.Reason)
	}
	// Output:
	// tool_failed user_confirmed_retry tool_side_effect
	// tool_failed safe_auto_retry nothing_left_client
}

// Whether a run may be repeated depends on the effects of the tools that it executed.
func ExampleEffect() {
	server := model(true)
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	for _, call := range []otelllm.ToolCall{
		{ID: "call_1", Name: "read_file", Effect: otelllm.EffectReadOnly},
		{ID: "call_1", Name: "write_file", Effect: otelllm.EffectIdempotent},
		{ID: "call_1", Name: "send_mail", Effect: otelllm.EffectNonIdempotent},
		{ID: "call_1", Name: "plugin"}, // not declared
	} {
		ctx, run := otelllm.StartRun(context.Background(), "coder")
		err := ask(ctx, client, server.URL)
		_, tool := otelllm.StartTool(ctx, call)
		tool.End(nil)
		run.End(err)
		fmt.Println(call.Name, run.Diagnosis().Retry.Safety)
	}
	// Output:
	// read_file safe_auto_retry
	// write_file safe_auto_retry
	// send_mail user_confirmed_retry
	// plugin user_confirmed_retry
}

// An output that is sent by itself reaches the model, fails to, or is kept for later.
func ExampleTool_RecordOutputFailure() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	ctx, run := otelllm.StartRun(context.Background(), "coder", otelllm.WithTracerProvider(provider))

	for _, call := range []struct {
		name string
		send func() error
	}{
		{"list_files", func() error { return nil }},
		{"read_file", func() error { return io.ErrClosedPipe }},
		{"write_file", nil}, // no session is open
	} {
		_, tool := otelllm.StartTool(ctx, otelllm.ToolCall{Name: call.name, Effect: otelllm.EffectIdempotent})
		tool.End(nil)
		if call.send == nil {
			tool.RecordOutputCached()
		} else if err := call.send(); err != nil {
			tool.RecordOutputFailure(err)
		} else {
			tool.RecordOutputSent()
		}
	}
	run.End(nil)
	show(spans, "llm.tool.output_delivery")
	// Output:
	// execute_tool list_files
	//   llm.tool.output_delivery sent
	// execute_tool read_file
	//   llm.tool.output_delivery failed
	// execute_tool write_file
	//   llm.tool.output_delivery cached
	// invoke_agent coder
}

// An application names what ends a call on purpose.
func ExampleAbortSource() {
	server := silentModel()
	defer server.Close()
	client := &http.Client{Transport: otelllm.NewTransport(http.DefaultTransport)}

	for _, end := range []struct {
		source otelllm.AbortSource
		reason string
	}{
		{otelllm.AbortUser, "stop_button"},
		{otelllm.AbortApplication, "budget"},
		{otelllm.AbortShutdown, "sigterm"},
		{otelllm.AbortWatchdog, "idle"}, // a time limit of the application's own: a failure
	} {
		ctx, abort := otelllm.WithAbort(context.Background())
		ctx, run := otelllm.StartRun(ctx, "coder")
		time.AfterFunc(10*time.Millisecond, func() { abort(end.source, end.reason) })
		run.End(ask(ctx, client, server.URL))
		d := run.Diagnosis()
		fmt.Println(d.Outcome, d.Class, d.Cause)
	}
	// Output:
	// aborted local_abort user
	// aborted local_abort application
	// aborted local_abort shutdown
	// failed watchdog_timeout idle
}

// The cause of the context says who ended it. The first call of the function counts, so a
// deferred one only releases the context.
func ExampleAbortError() {
	ctx, abort := otelllm.WithAbort(context.Background())
	defer abort(otelllm.AbortApplication, "done")

	abort(otelllm.AbortUser, "stop_button")

	var aborted *otelllm.AbortError
	if errors.As(context.Cause(ctx), &aborted) {
		fmt.Println(aborted.Source, aborted.Reason)
	}
	fmt.Println(errors.Is(aborted, context.Canceled))
	// Output:
	// user stop_button
	// true
}
