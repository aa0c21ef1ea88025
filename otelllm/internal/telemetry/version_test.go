package telemetry

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The version is that of the module in the build, wherever it comes from.
func TestVersionInBuildInformation(t *testing.T) {
	other := &debug.Module{Path: "example.com/other", Version: "v9.9.9"}
	at := func(version string) *debug.Module { return &debug.Module{Path: modulePath, Version: version} }
	for name, tt := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"a dependency":               {debug.BuildInfo{Deps: []*debug.Module{other, at("v0.1.0")}}, "0.1.0"},
		"a pre-release":              {debug.BuildInfo{Deps: []*debug.Module{at("v0.2.0-rc.1")}}, "0.2.0-rc.1"},
		"replaced by a fork":         {debug.BuildInfo{Deps: []*debug.Module{{Path: modulePath, Version: "v0.1.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.1.1"}}}}, "0.1.1"},
		"replaced by a folder":       {debug.BuildInfo{Deps: []*debug.Module{{Path: modulePath, Version: "v0.0.0", Replace: &debug.Module{Path: "../.."}}}}, Development},
		"not released":               {debug.BuildInfo{Deps: []*debug.Module{at("v0.0.0")}}, Development},
		"the main module":            {debug.BuildInfo{Main: *at("v0.1.0")}, "0.1.0"},
		"the main module, unstamped": {debug.BuildInfo{Main: *at("(devel)")}, Development},
		"not there":                  {debug.BuildInfo{Deps: []*debug.Module{other}}, Development},
	} {
		assert.Equal(t, tt.want, versionIn(&tt.info), name)
	}
	assert.NotEmpty(t, Version())
}
