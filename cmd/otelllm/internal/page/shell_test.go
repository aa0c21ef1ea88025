package page

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page's scripts are one scope. A name that two of them declare is a syntax error, and the
// page stays empty.
func TestScriptsDeclareEachNameOnce(t *testing.T) {
	declaration := regexp.MustCompile(`(?m)^(?:async )?(?:const|let|class|function\*?) ([\w$]+)`)
	declaredIn := map[string]string{}
	for _, script := range scripts {
		declared := declaration.FindAllStringSubmatch(asset(script), -1)
		require.NotEmpty(t, declared, script)
		for _, match := range declared {
			name := match[1]
			assert.Empty(t, declaredIn[name], "%s is declared in %s too", name, script)
			declaredIn[name] = script
		}
	}
}
