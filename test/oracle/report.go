package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
)

// runAll runs the cases with the given number of workers until ctx ends, and calls each
// for every result, one at a time.
func runAll(ctx context.Context, cases []testCase, workers int, each func(c *testCase, res *result)) error {
	workers = max(1, min(workers, len(cases)))
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next atomic.Int64
		errs = make([]error, workers)
	)
	for i := range errs {
		wg.Go(func() {
			r, err := newRig(clients())
			for err == nil {
				at := int(next.Add(1)) - 1
				if at >= len(cases) || ctx.Err() != nil {
					break
				}
				c := &cases[at]
				res := r.run(ctx, c)
				mu.Lock()
				each(c, &res)
				mu.Unlock()
				if res.hung {
					r.close()
					r, err = newRig(clients())
				}
			}
			if errs[i] = err; err == nil {
				r.close()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// report counts the findings.
type report struct {
	shown int
	cases map[string]int          // by client
	found map[kind]map[string]int // by client
	first map[kind]map[string][]string
}

func newReport(shown int) *report {
	return &report{shown: shown, cases: map[string]int{}, found: map[kind]map[string]int{}, first: map[kind]map[string][]string{}}
}

func (r *report) add(c *testCase, res *result) {
	r.cases[c.client]++
	for _, f := range res.findings {
		if r.found[f.kind] == nil {
			r.found[f.kind], r.first[f.kind] = map[string]int{}, map[string][]string{}
		}
		r.found[f.kind][c.client]++
		// One example per stream is more useful than the next byte of the same stream.
		group := c.client + " " + c.stream.name
		if examples := r.first[f.kind]; len(examples[group]) == 0 {
			examples[group] = append(examples[group], fmt.Sprintf("%s: %s", c, f.detail))
		}
	}
}

func (r *report) total() (n int) {
	for _, cases := range r.cases {
		n += cases
	}
	return n
}

// failed reports whether there is a finding that is not a note.
func (r *report) failed() bool {
	for k := range r.found {
		if !k.note() {
			return true
		}
	}
	return false
}

// kinds returns the kinds that were found, failures first.
func (r *report) kinds() (kinds []kind) {
	for k := range r.found {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		if a.note() != b.note() {
			if a.note() {
				return 1
			}
			return -1
		}
		return strings.Compare(string(a), string(b))
	})
	return kinds
}

func (r *report) print(out io.Writer) {
	kinds := r.kinds()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "client\tcases\t")
	for i := range kinds {
		fmt.Fprintf(table, "[%d]\t", i+1)
	}
	fmt.Fprintln(table)
	for _, name := range names() {
		if r.cases[name] == 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t", name, r.cases[name])
		for _, k := range kinds {
			fmt.Fprintf(table, "%d\t", r.found[k][name])
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	for i, k := range kinds {
		n := 0
		for _, count := range r.found[k] {
			n += count
		}
		groups := make([]string, 0, len(r.first[k]))
		for group := range r.first[k] {
			groups = append(groups, group)
		}
		slices.Sort(groups)
		fmt.Fprintf(out, "\n[%d] %s: %d cases, %d streams\n", i+1, k, n, len(groups))
		for j, group := range groups {
			if j == r.shown {
				fmt.Fprintf(out, "  and %d more\n", len(groups)-j)
				break
			}
			for _, example := range r.first[k][group] {
				fmt.Fprintf(out, "  %s\n", example)
			}
		}
	}
}
