package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/otelllm/otelllm-go/cmd/otelllm/report"
	"github.com/otelllm/otelllm-go/semconv"
)

// link is a link to print.
type link struct {
	name string
	url  string
}

// searchLimit is the number of traces that a search shows: the second largest that
// Jaeger offers.
const searchLimit = 500

// links prints links into Jaeger, after checking that each works.
func (j *jaeger) links(ctx context.Context, runs []report.Run, out io.Writer) error {
	pages, err := j.hasPages(ctx)
	if err != nil {
		return err
	}
	links, err := j.choose(runs, pages)
	if err != nil {
		return err
	}
	for _, l := range links {
		if err := opens(ctx, l.url); err != nil {
			return fmt.Errorf("the link to %s does not open: %w", l.name, err)
		}
	}
	fmt.Fprintf(out, "\nJaeger has all %d runs. Open:\n", len(runs))
	for _, l := range links {
		fmt.Fprintf(out, "\n  %s\n    %s\n", l.name, l.url)
	}
	if !pages {
		fmt.Fprint(out, `
These links are to Jaeger's API: a Jaeger that is built from its Go module has no web pages. For those download a
released Jaeger 2 and run `+"`make demo-jaeger JAEGER=path/to/jaeger`"+`. To read one trace in words:
`+"`build/otelllm classify jaeger://"+strings.TrimPrefix(j.api.String(), "http://")+"/ID`.\n")
	}
	return nil
}

// choose selects the links: every failure of the most common class, runs that may be
// repeated and runs that may not, and one complete trace.
func (j *jaeger) choose(runs []report.Run, pages bool) ([]link, error) {
	var links []link
	search := func(name, key, value string) error {
		service := serviceWith(runs, key, value)
		if service == "" {
			return nil
		}
		u, err := j.api.SearchURL(service, map[string]string{key: value}, searchLimit, pages)
		links = append(links, link{name, u})
		return err
	}
	for _, s := range []struct {
		name string
		key  string
		want fmt.Stringer
	}{
		{"streams that broke", string(semconv.FailureClassKey), semconv.ClassStreamInterrupted},
		{"tool outputs that the model never got", string(semconv.FailureClassKey), semconv.ClassToolOutputLost},
		{"what may be tried again without asking", string(semconv.RetrySafetyKey), semconv.RetrySafetySafeAutoRetry},
		{"what a person has to be asked about", string(semconv.RetrySafetyKey), semconv.RetrySafetyUserConfirmedRetry},
		{"runs that recovered", string(semconv.RunOutcomeKey), semconv.RunOutcomeRecovered},
	} {
		if err := search(s.name+", "+s.key+"="+s.want.String(), s.key, s.want.String()); err != nil {
			return nil, err
		}
	}
	for i := range runs {
		if r := &runs[i]; r.Verdict.Safety == semconv.RetrySafetyUserConfirmedRetry && len(r.Tools) > 0 {
			links = append(links, link{"one run as a whole: " + r.Verdict.Summary, j.api.TraceURL(r.TraceID, pages)})
			break
		}
	}
	return links, nil
}

// serviceWith returns a service with a run that has this attribute, or "".
func serviceWith(runs []report.Run, key, value string) string {
	for i := range runs {
		if v, ok := runs[i].Attributes.Get(key); ok && v.Str() == value {
			return runs[i].Service
		}
	}
	return ""
}

// hasPages reports whether this Jaeger has its UI. A Jaeger that was built without it
// serves a placeholder without a script.
func (j *jaeger) hasPages(ctx context.Context) (bool, error) {
	page, err := fetch(ctx, j.api.String())
	return strings.Contains(page, "<script"), err
}

// opens returns an error if a link leads to nothing.
func opens(ctx context.Context, url string) error {
	text, err := fetch(ctx, url)
	if err == nil && (text == "" || strings.Contains(text, `"data":[]`)) {
		err = fmt.Errorf("there is nothing at %s", url)
	}
	return err
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return string(body), err
}
