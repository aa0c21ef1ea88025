package agentrun

import "context"

// Admission decides whether a model call may be sent to a host, before anything of it is recorded. HistoryOutputs are the
// ids of the tool outputs in its history; nil: not observed. If Admission returns an error, the call is not sent and fails
// with that error.
type Admission func(host string, historyOutputs []string) error

type admissionKey struct{}

// admissions are the Admissions of a context, the innermost first.
type admissions struct {
	admit Admission
	outer *admissions
}

// WithAdmission returns a context whose model calls are sent only if admit, and each Admission of ctx, allows it.
func WithAdmission(ctx context.Context, admit Admission) context.Context {
	outer, _ := ctx.Value(admissionKey{}).(*admissions)
	return context.WithValue(ctx, admissionKey{}, &admissions{admit, outer})
}

// Admitted reports whether ctx has an Admission.
func Admitted(ctx context.Context) bool { return ctx.Value(admissionKey{}) != nil }

// Admit asks the Admissions of ctx, the outermost first.
func Admit(ctx context.Context, host string, historyOutputs []string) error {
	all, _ := ctx.Value(admissionKey{}).(*admissions)
	return all.ask(host, historyOutputs)
}

func (a *admissions) ask(host string, historyOutputs []string) error {
	if a == nil {
		return nil
	}
	if err := a.outer.ask(host, historyOutputs); err != nil {
		return err
	}
	return a.admit(host, historyOutputs)
}
