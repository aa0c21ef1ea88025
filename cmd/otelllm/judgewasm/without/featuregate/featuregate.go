// Package featuregate is in place of go.opentelemetry.io/collector/featuregate when judgewasm is compiled, see
// scripts/build-wasm: the registry brings regular expressions, URLs and flags, and nothing sets a gate here. pdata has one, which is
// off by default.
package featuregate

type (
	// Gate is off.
	Gate struct{}
	// Registry keeps no gate.
	Registry struct{}
	// RegisterOption does nothing.
	RegisterOption struct{}
	// Stage is the stage of a gate.
	Stage int
)

// StageAlpha is the stage of gates that are off by default. Gates of other stages are not here.
const StageAlpha Stage = 0

// GlobalRegistry returns a registry.
func GlobalRegistry() *Registry { return nil }

// MustRegister returns a gate.
func (*Registry) MustRegister(string, Stage, ...RegisterOption) *Gate { return nil }

// IsEnabled returns false.
func (*Gate) IsEnabled() bool { return false }

// WithRegisterDescription does nothing.
func WithRegisterDescription(string) RegisterOption { return RegisterOption{} }

// WithRegisterFromVersion does nothing.
func WithRegisterFromVersion(string) RegisterOption { return RegisterOption{} }

// WithRegisterReferenceURL does nothing.
func WithRegisterReferenceURL(string) RegisterOption { return RegisterOption{} }
