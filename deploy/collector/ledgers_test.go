package collector

import (
	"time"

	"github.com/otelllm/otelllm-go/deploy/collector/internal/traffic"
)

func runs(l *traffic.Ledger) traffic.Entries       { return l.Runs }
func failedRuns(l *traffic.Ledger) traffic.Entries { return l.Runs.Where("llm_run_outcome", "failed") }
func requests(l *traffic.Ledger) traffic.Entries   { return l.Requests }
func tools(l *traffic.Ledger) traffic.Entries      { return l.Tools }

func unwellTools(l *traffic.Ledger) traffic.Entries {
	return l.Tools.WhereNot("llm_tool_outcome", "succeeded")
}

func brokenRequests(l *traffic.Ledger) traffic.Entries {
	return l.Requests.Where("llm_failure_class", "connection_failed", "stream_interrupted", "protocol_violation", "watchdog_timeout",
		"provider_error", "empty_completion")
}

func providerErrors(l *traffic.Ledger) traffic.Entries {
	return l.Requests.Where("llm_failure_class", "provider_error")
}

func abandonedRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_failure_class", "run_abandoned")
}

// failedWithRequest are the runs that ended on a failed request.
func failedWithRequest(l *traffic.Ledger) traffic.Entries {
	return failedRuns(l).Where("llm_failure_class", "connection_failed", "stream_interrupted", "protocol_violation", "watchdog_timeout",
		"provider_error", "empty_completion")
}

func lostRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_failure_class", "tool_output_lost")
}

func unsafeRuns(l *traffic.Ledger) traffic.Entries {
	return failedRuns(l).WhereNot("llm_retry_safety", "safe_auto_retry")
}

func recoveredRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_run_outcome", "recovered")
}

func brokenRuns(l *traffic.Ledger) traffic.Entries {
	return l.Runs.Where("llm_run_outcome", "recovered", "failed")
}

func interrupted(l *traffic.Ledger) traffic.Entries {
	return l.Requests.Where("llm_failure_class", "connection_failed", "stream_interrupted", "protocol_violation", "watchdog_timeout")
}

func wasted(kind string) func(l *traffic.Ledger) traffic.Entries {
	return func(l *traffic.Ledger) traffic.Entries { return l.WastedTokens.Where("gen_ai_token_type", kind) }
}

func wastedTokens(l *traffic.Ledger) traffic.Entries   { return l.WastedTokens }
func wastedRequests(l *traffic.Ledger) traffic.Entries { return l.WastedRequests }

func unseen(l *traffic.Ledger) traffic.Entries {
	return l.WastedRequests.Where("llm_usage_seen", "false")
}

func nothing(*traffic.Ledger) traffic.Entries { return nil }

// selections are what is chosen at the top of the dashboards.
var selections = []map[string]string{
	{},
	{"provider": "anthropic"},
	{"service": "coder-web"},
	{"provider": "azure.ai.openai", "model": "gpt-5.5"},
}

// only returns the part of the ledger that is chosen and that happened after from, until and with to.
func only(l *traffic.Ledger, chosen map[string]string, from, to time.Time) *traffic.Ledger {
	return between(chosenOf(l, chosen), from, to)
}

// chosenOf returns the part of the ledger that is chosen.
func chosenOf(l *traffic.Ledger, chosen map[string]string) *traffic.Ledger {
	keep := func(entries traffic.Entries, provider bool) traffic.Entries {
		if v, ok := chosen["service"]; ok {
			entries = entries.Where("service_name", v)
		}
		if v, ok := chosen["provider"]; ok && provider {
			entries = entries.Where("gen_ai_provider_name", v)
		}
		if v, ok := chosen["model"]; ok && provider {
			entries = entries.Where("gen_ai_request_model", v)
		}
		return entries
	}
	return &traffic.Ledger{
		Runs: keep(l.Runs, true), Requests: keep(l.Requests, true), Tools: keep(l.Tools, false),
		LostOutputs: keep(l.LostOutputs, true), RecoveredFailures: keep(l.RecoveredFailures, true),
		WastedTokens: keep(l.WastedTokens, true), WastedRequests: keep(l.WastedRequests, true),
	}
}

// between returns the part of the ledger that happened after from, until and with to.
func between(l *traffic.Ledger, from, to time.Time) *traffic.Ledger {
	return &traffic.Ledger{
		Runs: l.Runs.Between(from, to), Requests: l.Requests.Between(from, to), Tools: l.Tools.Between(from, to),
		LostOutputs: l.LostOutputs.Between(from, to), RecoveredFailures: l.RecoveredFailures.Between(from, to),
		WastedTokens: l.WastedTokens.Between(from, to), WastedRequests: l.WastedRequests.Between(from, to),
	}
}
