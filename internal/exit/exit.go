// Package exit is the exit codes that every command shares, and the errors that carry them.
//
//	0 done · 1 a negative answer (refused, stop, drift, failed proof) · 2 misused · 3 could not tell
package exit

import "errors"

// The codes.
const (
	OK      = 0
	No      = 1
	Misused = 2
	Unknown = 3
)

// Said is an outcome that the command has already told: only its exit code is left to give.
var Said = errors.New("said")

type coded struct {
	code int
	err  error
}

func (c coded) Error() string { return c.err.Error() }
func (c coded) Unwrap() error { return c.err }

// Refuse marks err as a negative answer: the command understood, looked, and says no.
func Refuse(err error) error { return with(No, err) }

// Misuse marks err as a mistake in how the command was called.
func Misuse(err error) error { return with(Misused, err) }

// CannotTell marks err as something that could not be read: neither yes nor no.
func CannotTell(err error) error { return with(Unknown, err) }

func with(code int, err error) error {
	if err == nil {
		return nil
	}
	return coded{code, err}
}

// Code is the exit code of err: that of the mark nearest the root of the chain's top, No for an unmarked error; where
// several are joined, No beats Unknown.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		code := OK
		for _, e := range joined.Unwrap() {
			switch c := Code(e); {
			case c == No:
				return No
			case c > code:
				code = c
			}
		}
		return code
	}
	if c, ok := err.(coded); ok {
		return c.code
	}
	if inner := errors.Unwrap(err); inner != nil {
		return Code(inner)
	}
	return No
}
