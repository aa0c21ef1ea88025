package llmclassify

// A lane's tables are the ids of judged runs and spans, the history of traces, and the evidence.
// Together they take at most six sixteenths of the memory for facts. What is in none of them is
// judged with care, as where a process has just been started.

// perTables is factBytes/tables, if all tables are full.
const perTables = 16. / 6

// tableBytes is the estimated memory of the tables.
func (l *lane) tableBytes() int {
	return l.buffer.Judged().Size() + l.buffer.History().Size() + int(l.evidenceBytes.Load())
}

// limitTables bounds the tables, each to its part of factBytes.
func (l *lane) limitTables(factBytes int) {
	l.buffer.Judged().SetLimit(factBytes)
	l.buffer.History().SetLimit(factBytes / 16)
	l.evidence.setLimit(factBytes / 16)
}

// shareMemory bounds the facts and the tables of each tenant.
func (s *shard) shareMemory() {
	limit := max(s.maxFactBytes/s.n, 1)
	facts, tables, lanes := 0, 0, 0
	for l := range s.all {
		l.lock() // calls have one lane at a time
		defer l.unlock()
		facts += l.buffer.FactBytes()
		tables += l.tableBytes()
		lanes++
	}
	for l := range s.all {
		l.buffer.SetMaxFactBytes(fairPart(limit, facts-l.buffer.FactBytes(), lanes))
		l.limitTables(fairPart(limit, int(perTables*float64(tables-l.tableBytes())), lanes))
	}
}
