package netcause

import "syscall"

// Windows Sockets error numbers that package syscall does not name.
const (
	wsaeACCES         syscall.Errno = 10013
	wsaeMFILE         syscall.Errno = 10024
	wsaeADDRNOTAVAIL  syscall.Errno = 10049
	wsaeNETDOWN       syscall.Errno = 10050
	wsaeNETUNREACH    syscall.Errno = 10051
	wsaeNETRESET      syscall.Errno = 10052
	wsaeCONNABORTED   syscall.Errno = 10053
	wsaeCONNRESET     syscall.Errno = 10054
	wsaeNOTCONN       syscall.Errno = 10057
	wsaeTIMEDOUT      syscall.Errno = 10060
	wsaeCONNREFUSED   syscall.Errno = 10061
	wsaeHOSTDOWN      syscall.Errno = 10064
	wsaeHOSTUNREACH   syscall.Errno = 10065
	errBrokenPipe     syscall.Errno = 109
	errSemTimeout     syscall.Errno = 121
	errNetnameDeleted syscall.Errno = 64
)

var errnoNames = map[syscall.Errno]string{
	wsaeACCES:         "EACCES",
	wsaeMFILE:         "EMFILE",
	wsaeADDRNOTAVAIL:  "EADDRNOTAVAIL",
	wsaeNETDOWN:       "ENETDOWN",
	wsaeNETUNREACH:    "ENETUNREACH",
	wsaeNETRESET:      "ENETRESET",
	wsaeCONNABORTED:   "ECONNABORTED",
	wsaeCONNRESET:     "ECONNRESET",
	wsaeNOTCONN:       "ENOTCONN",
	wsaeTIMEDOUT:      "ETIMEDOUT",
	wsaeCONNREFUSED:   "ECONNREFUSED",
	wsaeHOSTDOWN:      "EHOSTDOWN",
	wsaeHOSTUNREACH:   "EHOSTUNREACH",
	errBrokenPipe:     "EPIPE",
	errSemTimeout:     "ETIMEDOUT",
	errNetnameDeleted: "ECONNRESET",
}
