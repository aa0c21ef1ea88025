package agents

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// setting is a file of an agent's, below the home or the working directory, in which a base URL
// outweighs what a variable says.
type setting struct{ file, key string }

// Nothing says why no model call came through the proxy, and what to do, as far as that is
// known: one sentence for each reason. It says nothing of what is in a file.
func (p *Plan) Nothing() []string {
	if len(p.Notes) > 0 {
		return p.Notes
	}
	var why []string
	for _, s := range p.Agent.settings {
		for _, dir := range []string{p.home, p.dir} {
			path := filepath.Join(dir, filepath.FromSlash(s.file))
			if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(s.key)) {
				why = append(why, path+" has "+s.key+", which outweighs the variables that are set here: remove it there, and give that URL with --upstream")
			}
		}
	}
	if slices.Contains(p.Args[:p.at.arg], "-i") {
		why = append(why, "env -i takes the variables away that lead to the proxy: leave -i out")
	}
	switch {
	case len(why) > 0:
	case p.Agent.Name == Generic:
		why = append(why, p.Args[0]+" is no agent that is known, and calls no model by the variables of the providers' SDKs: if it starts one that is known, say which with --set ("+
			strings.Join(Names(), ", ")+"); or start `otelllm proxy`, and set the base URL where it reads it")
	default:
		why = append(why, p.Agent.Title+" called no model, or takes its base URL from where it is not looked for: "+p.Agent.Limits)
	}
	return why
}
