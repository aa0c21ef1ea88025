package opencode

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"modernc.org/sqlite" // needs no C compiler, and reads the write-ahead log

	"github.com/otelllm/otelllm-go/cmd/otelllm/internal/sessionfiles/event"
)

// The bounds of what is read of one database.
const (
	maxSessions = 20_000 // the newest
	maxMessages = 2_000  // of a session, the newest
	maxParts    = 20_000 // of these
)

// SubAgents is the tool that begins a sub-agent.
const SubAgents = "task"

// errUnreadable is the error for a database that cannot be read, or is not opencode's.
var errUnreadable = errors.New("the database cannot be read, or is not opencode's")

// Read reads the sessions of a database that changed since a time, in milliseconds since 1970. The
// database is only read, and no file is created beside it. The session of a sub-agent is part of the one with the call that
// began it, and read as long as that call has not ended well.
func Read(ctx context.Context, path string, since int64) ([]*event.Log, error) {
	db, err := open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	logs, err := sessions(ctx, db, since)
	if err != nil {
		return nil, unreadable(err)
	}
	for _, log := range logs {
		if err := read(ctx, db, log); err != nil {
			return nil, unreadable(err)
		}
		var failed error
		log.AddSubAgents([]string{SubAgents}, func(of *event.Log, call string) *event.Log {
			sub, err := subAgent(ctx, db, of.Session, of.Began[call])
			failed = errors.Join(failed, err)
			return sub
		})
		if failed != nil {
			return nil, unreadable(failed)
		}
	}
	return logs, nil
}

// open opens a database read-only. Without a write-ahead log nothing is written to it now, and it
// is read as a file that does not change: SQLite would create files beside it otherwise.
func open(path string) (*sql.DB, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	query := "mode=ro&_pragma=busy_timeout(1000)&_pragma=query_only(1)"
	if _, err := os.Stat(full + "-wal"); err != nil {
		query += "&immutable=1"
	}
	if full = filepath.ToSlash(full); full[0] != '/' {
		full = "/" + full // C:/…
	}
	name := url.URL{Scheme: "file", Path: full, RawQuery: query}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, errUnreadable
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// unreadable returns an error of SQLite without its text, which may name a path.
func unreadable(err error) error {
	var of *sqlite.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &of):
		return fmt.Errorf("%w (SQLite error %d)", errUnreadable, of.Code())
	default:
		return errUnreadable
	}
}

// sessions returns the sessions that changed since then, the newest first, without what happened in them.
func sessions(ctx context.Context, db *sql.DB, since int64) (list []*event.Log, err error) {
	rows, err := db.QueryContext(ctx, `SELECT id, version FROM session
		WHERE time_updated >= ? AND parent_id IS NULL ORDER BY time_updated DESC LIMIT ?`, since, maxSessions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id, version string
		if err := rows.Scan(&id, &version); err != nil {
			return nil, err
		}
		log := &event.Log{}
		log.SetSession(id, version)
		list = append(list, log)
	}
	return list, rows.Err()
}

// subAgent reads the session of a sub-agent of the parent; nil if there is no such session.
func subAgent(ctx context.Context, db *sql.DB, parent, id string) (*event.Log, error) {
	var version string
	err := db.QueryRowContext(ctx, `SELECT version FROM session WHERE id = ? AND parent_id = ?`, id, parent).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	log := &event.Log{}
	log.SetSession(id, version)
	return log, read(ctx, db, log)
}

// What is read of the column data: its members without content. A row that is not JSON becomes a
// text that is not, either.
const (
	messageData = `CASE WHEN json_valid(data) THEN json_object(
		'role', data->>'$.role', 'mode', data->>'$.mode', 'modelID', data->>'$.modelID', 'finish', data->>'$.finish', 'structured', data->>'$.structured' IS NOT NULL,
		'time', json_object('created', data->>'$.time.created', 'completed', data->>'$.time.completed'),
		'error', CASE WHEN data->>'$.error' IS NULL THEN NULL ELSE json_object(
			'name', data->>'$.error.name', 'data', json_object('statusCode', data->>'$.error.data.statusCode')) END) ELSE '' END`
	partData = `CASE WHEN json_valid(data) THEN json_object(
		'type', data->>'$.type', 'tool', data->>'$.tool', 'callID', data->>'$.callID', 'metadata', json_object('providerExecuted', data->'$.metadata.providerExecuted'), 'reason', data->>'$.reason', 'auto', data->'$.auto',
		'state', json_object('status', data->>'$.state.status',
			'time', json_object('end', data->>'$.state.time.end'),
			'metadata', json_object('exit', data->'$.state.metadata.exit', 'interrupted', data->'$.state.metadata.interrupted', 'background', data->'$.state.metadata.background', 'sessionId', data->>'$.state.metadata.sessionId'))) ELSE '' END`
)

// partRow is a row of the table part.
type partRow struct {
	data             string
	created, updated int64
}

// read reads what happened in a session.
func read(ctx context.Context, db *sql.DB, log *event.Log) error {
	parts, err := readParts(ctx, db, log)
	if err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, `SELECT id, `+messageData+` FROM message WHERE session_id = ? ORDER BY id DESC LIMIT ?`, log.Session, maxMessages)
	if err != nil {
		return err
	}
	defer rows.Close()
	type message struct{ id, data string }
	var messages []message
	for rows.Next() {
		var m message
		if err := rows.Scan(&m.id, &m.data); err != nil {
			return err
		}
		messages = append(messages, m)
	}
	log.Partial = log.Partial || len(messages) == maxMessages
	r := New(log)
	for _, m := range slices.Backward(messages) {
		r.Message([]byte(m.data))
		for _, p := range slices.Backward(parts[m.id]) {
			r.Part([]byte(p.data), p.created, p.updated)
		}
	}
	r.Close()
	return rows.Err()
}

// readParts returns the parts of the messages of a session, the newest first.
func readParts(ctx context.Context, db *sql.DB, log *event.Log) (map[string][]partRow, error) {
	rows, err := db.QueryContext(ctx, `SELECT message_id, time_created, time_updated, `+partData+` FROM part WHERE session_id = ? ORDER BY id DESC LIMIT ?`, log.Session, maxParts)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	parts, n := make(map[string][]partRow), 0
	for rows.Next() {
		var of string
		var p partRow
		if err := rows.Scan(&of, &p.created, &p.updated, &p.data); err != nil {
			return nil, err
		}
		parts[of] = append(parts[of], p)
		n++
	}
	log.Partial = log.Partial || n == maxParts
	return parts, rows.Err()
}
