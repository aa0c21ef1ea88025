//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package keep

import "os"

// removeOpen says that a file can be removed while it is open. Where it cannot, as on Windows,
// that takes the place of a lock: what a process writes cannot be removed by another.
const removeOpen = false

func lock(*os.File) error { return nil }
