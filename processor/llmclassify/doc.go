//go:generate mdatagen metadata.yaml

// Package llmclassify is the Collector processor llm_classify. It holds the
// spans of LLM requests, tools and agent runs until their run can be judged,
// stamps the diagnosis onto them and forwards them; every other span passes in
// the call that brought it.
//
// The way of a call, a package under internal for each step:
//
//	ConsumeTraces
//	  │
//	intake ──── which spans are LLM spans, by their dialect
//	  │ batch
//	worker ──── owns the LLM spans, by tenant and shard, or refuses the call ─── other spans ──► next consumer
//	  │
//	trace ───── holds them, until a run is complete or its time is over
//	  │ release
//	release ─── judge: release ─► verdicts; stamp: verdicts ─► spans
//	  │ parcel
//	forward ─── sends again what is refused for now ────────────────────────────────────────────► next consumer
//
// A run that comes whole in a call is judged in it and passes with the other spans. With a storage,
// journal has each LLM span from before the call is owned until it is forwarded and its run judged.
package llmclassify
