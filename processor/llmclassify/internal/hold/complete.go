package hold

import (
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// maxCompared is how many spans of a trace [CompleteRuns] looks at: they are compared with
// one another.
const maxCompared = 64

// CompleteRuns releases the runs of a trace of which nothing else is here or was judged,
// where all of them came at once and are complete: what [Buffer.Add] would release,
// without a buffer. It appends to the releases, whose members are in room, and
// reports false where a buffer is needed. Spans are the items'; alone says that no
// span came with these that is not among them.
//
// Each item names its run or is one, and its parent is among them: whose it is
// does not depend on anything else. The items are only read.
func CompleteRuns[F any](a Arrival[F], spans []ptrace.Span, alone bool, releases []Release[F], room []Member[F]) ([]Release[F], []Member[F], bool) {
	if len(a.Items) > maxCompared {
		return releases, room, false
	}
	first := len(releases)
	runs, upstream := 0, false
	for i, it := range a.Items {
		upstream = upstream || it.Upstream
		if it.Spent || it.Unexplained || it.owner().IsEmpty() || find(a.Items, it.ID) != i {
			return releases[:first], room, false
		}
		if it.Role == Run {
			if !it.Announced.Known {
				return releases[:first], room, false
			}
			runs++
			continue
		}
		if above := find(a.Items, it.Parent); above < 0 && !alone && !it.Parent.IsEmpty() {
			return releases[:first], room, false
		}
	}
	if upstream && runs > 1 { // they are evidence for one another
		return releases[:first], room, false
	}
	// The runs in the order in which the first of each came.
	for i, it := range a.Items {
		owner := it.owner()
		if released(releases[first:], owner) {
			continue
		}
		at := find(a.Items, owner)
		if at < 0 || a.Items[at].Role != Run {
			return releases[:first], room, false
		}
		release := Release[F]{Reason: Complete, Final: true, Trace: a.Trace, RunID: owner, Named: true, Counts: true, Run: a.Items[at]}
		var requests, tools uint32
		from := len(room)
		for n, m := range a.Items[i:] {
			if m.owner() != owner {
				continue
			}
			member := Member[F]{Item: m, Span: spans[i+n], Out: true}
			switch {
			case begunAfter(m.Start, release.Run):
			case m.Role == Request:
				requests++
			case m.Role == Tool:
				tools++
			}
			if above := find(a.Items, m.Parent); m.Role != Run && above >= 0 && a.Items[above].Role != Run {
				member.Above = m.Parent
			}
			room = append(room, member)
		}
		release.Members = room[from:len(room):len(room)]
		if announced := release.Run.Announced; requests < announced.Requests || tools < announced.Tools {
			return releases[:first], room, false
		}
		releases = append(releases, release)
	}
	return releases, room, len(releases) > first
}

// find is the index of the first item of this id, or -1.
func find[F any](items []*Item[F], id pcommon.SpanID) int {
	if id.IsEmpty() {
		return -1
	}
	for i, it := range items {
		if it.ID == id {
			return i
		}
	}
	return -1
}

func released[F any](releases []Release[F], run pcommon.SpanID) bool {
	for i := range releases {
		if releases[i].RunID == run {
			return true
		}
	}
	return false
}
