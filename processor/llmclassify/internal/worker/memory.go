package worker

import "github.com/otelllm/otelllm-go/processor/llmclassify/internal/tenant"

// A lane's tables are the ids of judged runs and spans, the history of traces, and the evidence.
// Together they take at most six sixteenths of the memory for facts. What is in none of them is
// judged with care, as where a process has just been started.

// perTables is factBytes/tables, if all tables are full.
const perTables = 16. / 6

// TableBytes is the estimated memory of the tables.
func (l *Lane) TableBytes() int {
	return l.Buffer.Judged().Size() + l.Buffer.History().Size() + int(l.evidenceBytes.Load())
}

// limitTables bounds the tables, each to its part of factBytes.
func (l *Lane) limitTables(factBytes int) {
	l.Buffer.Judged().SetLimit(factBytes)
	l.Buffer.History().SetLimit(factBytes / 16)
	l.evidence.SetLimit(factBytes / 16)
}

// ShareMemory bounds the facts and the tables of each tenant.
func (s *shard) ShareMemory() {
	limit := max(s.MaxFactBytes/s.n, 1)
	facts, tables, lanes := 0, 0, 0
	for l := range s.All {
		l.lock() // calls have one lane at a time
		defer l.unlock()
		facts += l.Buffer.FactBytes()
		tables += l.TableBytes()
		lanes++
	}
	for l := range s.All {
		l.Buffer.SetMaxFactBytes(tenant.FairPart(limit, facts-l.Buffer.FactBytes(), lanes))
		l.limitTables(tenant.FairPart(limit, int(perTables*float64(tables-l.TableBytes())), lanes))
	}
}
