package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// Unreachable is what a client sees of an upstream that cannot be connected to. It has a
// connection already, so it cannot be refused one. Which of these an agent treats as it treats
// its own failure to connect differs between agents.
type Unreachable string

const (
	// UnreachableReset resets the client's connection before the headers. It is the default.
	UnreachableReset Unreachable = "reset"
	// UnreachableClose closes it before the headers.
	UnreachableClose Unreachable = "close"
	// UnreachableRefuse resets it, too, and from then on refuses connections until the upstream can
	// be connected to. That is for one agent with one upstream, on Linux; elsewhere it is
	// UnreachableReset.
	UnreachableRefuse Unreachable = "refuse"
	// UnreachableStatus answers 502, 504 after a timeout, or 421 if the certificate is not trusted,
	// which no client repeats, with an error in JSON that names the host and the cause.
	UnreachableStatus Unreachable = "status"
)

// ParseUnreachable returns the value of a name; "" is the default.
func ParseUnreachable(name string) (Unreachable, error) {
	switch u := Unreachable(name); u {
	case "", UnreachableReset, UnreachableClose, UnreachableRefuse, UnreachableStatus:
		return u, nil
	default:
		return "", fmt.Errorf("%q is not %s, %s, %s or %s", name, UnreachableReset, UnreachableClose, UnreachableRefuse, UnreachableStatus)
	}
}

// unreachable implements the ErrorHandler of httputil.ReverseProxy. All but the failures to connect
// are passed on as they are, by [Server.breakOff].
func (s *Server) unreachable(w http.ResponseWriter, r *http.Request, _ error) {
	x := exchangeOf(r.Context())
	x.mu.Lock()
	failure, cut := x.failure, x.cut
	x.mu.Unlock()
	if failure == nil || !isConnect(failure) || cut || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	status, problem := http.StatusBadGateway, problem(failure)
	switch problem {
	case timedOut:
		status = http.StatusGatewayTimeout
	case notTrusted:
		status = http.StatusMisdirectedRequest
	}
	if s.form != UnreachableStatus {
		x.closes = s.form == UnreachableClose
		if gate := s.gate.Load(); gate != nil && s.form == UnreachableRefuse {
			gate.refuse(x.base) //nolint:contextcheck // it goes on after the request
		}
		panic(http.ErrAbortHandler)
	}
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"type": "otelllm_unreachable", "code": status, "status": "UNAVAILABLE",
		"message": "otelllm cannot reach " + x.base.Host + ": " + problem,
	}})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Failure is a request that failed before its response, or that its upstream answered with an
// error.
type Failure struct {
	Host        string // of the upstream
	Problem     string // in words of this package's own
	Unreachable bool   // there was no connection
}

// reportFailure calls [Config.Failed] for an exchange that failed.
func (s *Server) reportFailure(x *exchange) {
	if s.failed == nil {
		return
	}
	x.mu.Lock()
	failure, answered, cut, status := x.failure, x.answered, x.cut, x.status
	x.mu.Unlock()
	switch {
	case errors.Is(failure, context.Canceled): // the client or this process ended it
	case status >= http.StatusBadRequest:
		s.failed(Failure{Host: x.base.Host, Problem: "status " + strconv.Itoa(status)})
	case failure != nil && isConnect(failure):
		s.failed(Failure{Host: x.base.Host, Problem: problem(failure), Unreachable: true})
	case failure == nil || cut:
	case !answered:
		s.failed(Failure{Host: x.base.Host, Problem: problem(failure)})
	default:
		s.failed(Failure{Host: x.base.Host, Problem: problem(failure) + " within the response"})
	}
}
