// Package retry repeats model calls, and turns of an agent, as far as that is safe. It obeys the
// diagnosis that an [otelllm.Transport] makes of what happened on the wire, under any SDK, and
// needs nothing but that transport in the HTTP client of each SDK that is used.
//
//	client := openai.NewClient(option.WithMaxRetries(0),
//		option.WithHTTPClient(&http.Client{Transport: otelllm.NewTransport(nil)}))
//	err := retry.Do(ctx, retry.Policy{Ask: confirm}, func(ctx context.Context) error {
//		return stream(ctx, client, history()) // reads the stream to its end
//	})
//
// [Do] is for one model call, and [Run] for a turn of an agent that keeps its history. Both call
// the function anew for each attempt: it builds its request from the history as that is by then,
// with the outputs of all tools that ran.
//
// What they decide after a failure:
//
//   - Sending it again is safe: they wait for as long as the provider asked, or for the backoff
//     if that is longer, and call the function again.
//   - Something may happen twice, or text was shown: they ask the hook [Policy.Ask]. Without a
//     hook they give up.
//   - It cannot help, or a person stopped it: they give up.
//   - A budget is spent, of attempts, of time, or of the retries that all callers of the host
//     have in common: they give up.
//
// Giving up returns an [*Error] with the diagnosis and the plan. It wraps the error of the
// function, so errors.Is and errors.As find what the SDK returned. If no failure of a model call
// was recorded, the function's error is its own, and is returned as it is.
//
// Each decision is an event llm.retry.decided on the span of the context.
package retry
