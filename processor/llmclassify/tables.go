package llmclassify

// A lane's tables are what it keeps beside facts: the judged runs, those that may be within
// others, those that late spans may correct, the evidence, and the spans of calls that were
// refused. Together they take at most six sixteenths of the memory for facts. What is in none
// of them is judged with care, as where a process has just been started.

// perTables is factBytes/tables, if all tables are full.
const perTables = 16. / 6

// tableBytes is the estimated memory of the tables.
func (l *lane) tableBytes() int {
	return l.buffer.Judged().Size() + l.inner.size() + l.inner.corrections.size() + l.awaited.size() + int(l.evidenceBytes.Load())
}

// limitTables bounds the tables, each to its part of factBytes.
func (l *lane) limitTables(factBytes int) {
	l.buffer.Judged().SetLimit(factBytes)
	l.inner.setLimit(factBytes / 16)
	l.evidence.setLimit(factBytes / 16)
	l.awaited.setLimit(factBytes / 16)
}

// shareMemory bounds the facts and the tables of each tenant.
func (s *shard) shareMemory() {
	limit := max(s.cfg.MaxFactBytes/s.n, 1)
	facts, tables, lanes := 0, 0, 0
	for l := range s.all {
		facts += l.buffer.FactBytes()
		tables += l.tableBytes()
		lanes++
	}
	for l := range s.all {
		l.buffer.SetMaxFactBytes(fairPart(limit, facts-l.buffer.FactBytes(), lanes))
		l.limitTables(fairPart(limit, int(perTables*float64(tables-l.tableBytes())), lanes))
	}
}
