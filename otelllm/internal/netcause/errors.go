package netcause

import "errors"

// Is is errors.Is for errors of the application, whose methods may panic. A panic counts
// as false.
func Is(err, target error) (yes bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// As is errors.As for errors of the application, whose methods may panic. A panic counts
// as false.
func As[T error](err error, target *T) (yes bool) {
	defer func() { _ = recover() }()
	return errors.As(err, target)
}
