package kerr

import (
	"errors"
	"fmt"
)

// Error is a refusal: a code for the client's library and a message for people.
// Errors are handled as *Error behind the error interface; New makes them.
type Error struct {
	Code    Code
	Message string // may be empty; then the code's own text stands for it
}

// New returns a refusal with the code and a message formatted as by
// fmt.Sprintf. The message names the thing that is wrong (a field, a config, a
// header) and its value; with an empty format the code's own text is used.
// New returns nil for None, so that a code taken from elsewhere can be passed
// through it.
func New(code Code, format string, args ...any) error {
	if code == None {
		return nil
	}
	if format == "" {
		return &Error{Code: code}
	}
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the name of the code and the message.
func (e *Error) Error() string { return e.Code.String() + ": " + e.text() }

// Is reports whether target is an Error with the same code and either no
// message or the same one, so that errors.Is(err, &kerr.Error{Code: c}) asks
// for the code alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t.Message == e.Message)
}

func (e *Error) text() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Code.Text()
}

// Of returns the code that err carries, however deep it is wrapped: None for
// nil, UnknownServerError for an error that carries none.
func Of(err error) Code {
	if err == nil {
		return None
	}
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e.Code
	}
	return UnknownServerError
}

// Message returns the text that a client may be shown for err: the message of
// the Error in it, or its code's text. What other errors were wrapped around it
// is left out. It is empty for nil.
func Message(err error) string {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) && e != nil {
		return e.text()
	}
	return UnknownServerError.Text()
}

// Int16 returns the code as kmsg's responses hold it.
func (c Code) Int16() int16 { return int16(c) }
