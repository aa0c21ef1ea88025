package sessionfiles

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/turns"
)

// openCodeTables are those of opencode 1.18.33, as far as they matter.
const openCodeTables = `
CREATE TABLE session (id text PRIMARY KEY, parent_id text, title text NOT NULL, directory text NOT NULL, version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);`

// openCodeDatabase writes the rows of sessions to a database, and returns it, still open.
func openCodeDatabase(t *testing.T, file string, sessions ...[]byte) *sql.DB {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	db, err := sql.Open("sqlite", file)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	_, err = db.ExecContext(t.Context(), "PRAGMA journal_mode = WAL;"+openCodeTables)
	require.NoError(t, err)
	for _, raw := range sessions {
		for line := range bytes.Lines(raw) {
			var row struct {
				Table, ID, Version string
				Message            string          `json:"message_id"`
				Session            string          `json:"session_id"`
				Parent             *string         `json:"parent_id"`
				Created            int64           `json:"time_created"`
				Updated            int64           `json:"time_updated"`
				Data               json.RawMessage `json:"data"`
			}
			require.NoError(t, json.Unmarshal(line, &row))
			switch row.Table {
			case "session":
				_, err = db.ExecContext(t.Context(), "INSERT INTO session VALUES (?, ?, 'Canary 4711', '/home/anna/secret', ?, ?, ?)", row.ID, row.Parent, row.Version, row.Created, row.Updated)
			case "message":
				_, err = db.ExecContext(t.Context(), "INSERT INTO message VALUES (?, ?, ?, ?, ?)", row.ID, row.Session, row.Created, row.Updated, string(row.Data))
			case "part":
				_, err = db.ExecContext(t.Context(), "INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row.ID, row.Message, row.Session, row.Created, row.Updated, string(row.Data))
			}
			require.NoError(t, err)
		}
	}
	return db
}

// TestOpenCodeDatabase reads the sessions of a database while it is open and after that, as the
// rows alone are read.
func TestOpenCodeDatabase(t *testing.T) {
	var raw [][]byte
	want := make(map[string]turns.State)
	for _, c := range allCases(t) {
		if c.agent.Name == OpenCode && c.name != "kill_in_tool_resumed" && c.name != "unknown_part" { // which has the same id as another, and a part that is not read
			raw = append(raw, c.raw)
			log := logOf(t, c.agent, c.raw)
			all := judgeAll(log, c.agent, turns.WriterGone)
			want[log.Session] = all[len(all)-1].State
		}
	}
	dir := t.TempDir()
	db := openCodeDatabase(t, filepath.Join(dir, "opencode.db"), raw...)
	got := func() map[string]turns.State {
		list, problems := scanned(t, Discover([]Place{{Find(OpenCode), dir, []string{"opencode*.db"}}}, time.Time{}, noProblem(t)))
		assert.Empty(t, problems)
		states := make(map[string]turns.State)
		for _, one := range list {
			states[one.ID] = one.Last().State
			assert.True(t, one.Known)
			assert.Zero(t, one.Unread)
		}
		return states
	}
	assert.Equal(t, want, got(), "with its write-ahead log")
	require.NoError(t, db.Close())
	files := entries(t, dir)
	assert.Equal(t, want, got(), "without one")
	assert.Equal(t, files, entries(t, dir), "no file is created")
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

// TestOpenCodeRows reads rows that are not JSON: they count, and nothing is safe.
func TestOpenCodeRows(t *testing.T) {
	dir := t.TempDir()
	db := openCodeDatabase(t, filepath.Join(dir, "opencode.db"), goldenSession(t, OpenCode, "r429"))
	_, err := db.ExecContext(t.Context(), "INSERT INTO part SELECT 'prt_zzz', id, session_id, 1, 1, 'Canary 4711' FROM message WHERE data LIKE '%assistant%'")
	require.NoError(t, err)
	list, problems := scanned(t, []File{{Agent: Find(OpenCode), Path: filepath.Join(dir, "opencode.db")}})
	assert.Empty(t, problems)
	require.Len(t, list, 1)
	assert.Equal(t, 1, list[0].Unread)
	assert.Equal(t, turns.Unwell, list[0].Last().State)
	assert.False(t, saidOf(list[0].Last()).safe)

	_, err = db.ExecContext(t.Context(), "DROP TABLE part")
	require.NoError(t, err)
	_, problems = scanned(t, []File{{Agent: Find(OpenCode), Path: filepath.Join(dir, "opencode.db")}})
	assert.Equal(t, []string{"opencode, opencode.db: the database cannot be read, or is not opencode's (SQLite error 1)"}, problems)
}

// TestOpenCodeSubAgents leaves out the sessions of sub-agents.
func TestOpenCodeSubAgents(t *testing.T) {
	dir := t.TempDir()
	db := openCodeDatabase(t, filepath.Join(dir, "opencode.db"), goldenSession(t, OpenCode, "ok_tool"))
	_, err := db.ExecContext(t.Context(), "INSERT INTO session SELECT 'ses_child', id, title, directory, version, time_created, time_updated FROM session")
	require.NoError(t, err)
	list, _ := scanned(t, []File{{Agent: Find(OpenCode), Path: filepath.Join(dir, "opencode.db")}})
	assert.Len(t, list, 1)
}
