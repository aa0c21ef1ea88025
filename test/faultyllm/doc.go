// Package faultyllm is a model server that breaks on purpose. It serves OpenAI Chat
// Completions, OpenAI Responses, Anthropic Messages, Gemini, Vertex AI and OpenAI
// Realtime from scripts, streamed or as one JSON document as the request asks, and fails
// exactly where the script says: it resets the connection, ends it inside the body, ends
// the stream cleanly but early, stalls, responds with the providers' HTTP errors, or
// reports an error inside a 200. It compresses answers where a script says so.
//
// A script is a list of [Step]s, for what the model writes and for what breaks:
//
//	srv, err := faultyllm.Start()
//	srv.Play("demo", faultyllm.Answer(
//		faultyllm.Text("I will ", "apply the patch."),
//		faultyllm.ToolInput("call_1", "apply_patch", `{"path":`, `"main.go",`),
//		faultyllm.Reset(),
//	))
//	client := openai.NewClient(option.WithBaseURL(srv.BaseURL("demo", faultyllm.Chat)))
//
// The same script plays over every wire protocol. What was sent, and where it was cut,
// is recorded: [Server.Records] is the ground truth for a diagnosis.
//
// The server listens on loopback only. It waits no longer than a script asks, and the
// same script gives the same bytes.
package faultyllm
