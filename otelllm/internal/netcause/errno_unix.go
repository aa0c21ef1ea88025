//go:build unix

package netcause

import "syscall"

var errnoNames = map[syscall.Errno]string{
	syscall.ECONNREFUSED:  "ECONNREFUSED",
	syscall.ECONNRESET:    "ECONNRESET",
	syscall.ECONNABORTED:  "ECONNABORTED",
	syscall.ENETRESET:     "ENETRESET",
	syscall.EPIPE:         "EPIPE",
	syscall.ETIMEDOUT:     "ETIMEDOUT",
	syscall.EHOSTUNREACH:  "EHOSTUNREACH",
	syscall.EHOSTDOWN:     "EHOSTDOWN",
	syscall.ENETUNREACH:   "ENETUNREACH",
	syscall.ENETDOWN:      "ENETDOWN",
	syscall.EADDRNOTAVAIL: "EADDRNOTAVAIL",
	syscall.EADDRINUSE:    "EADDRINUSE",
	syscall.EAFNOSUPPORT:  "EAFNOSUPPORT",
	syscall.EACCES:        "EACCES",
	syscall.EPERM:         "EPERM",
	syscall.EMFILE:        "EMFILE",
	syscall.ENFILE:        "ENFILE",
	syscall.ENOBUFS:       "ENOBUFS",
	syscall.ENOTCONN:      "ENOTCONN",
	syscall.EINVAL:        "EINVAL",
}
