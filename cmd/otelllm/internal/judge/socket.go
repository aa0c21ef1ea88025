//go:build !wasip1

package judge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// maxConnections bounds how many programs are connected at a time.
const maxConnections = 256

// ListenAndServe serves a Unix socket that only this user may open, until ctx is done. Ready
// is called when it can be connected to. All connections share the runs.
func ListenAndServe(ctx context.Context, path string, j *Judge, ready func()) error {
	listener, err := listen(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	ready()
	var open sync.WaitGroup
	defer open.Wait()
	places := make(chan struct{}, maxConnections)
	for {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", path, err)
		}
		open.Go(func() {
			defer func() { <-places }()
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer stop()
			_ = j.Serve(conn, conn) // the program has gone
		})
	}
}

// listen listens at path. It replaces a socket that nothing listens on, which a killed
// program left behind.
func listen(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("%s exists and is not a socket: name another path", path)
	default:
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("another program listens on %s", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
	}
	// The socket is made where no other user can open it, and moved when its mode is set.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".otelllm-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return listener, nil
}
