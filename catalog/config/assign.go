package config

import (
	"math"
	"strconv"
	"time"
)

// textSetter is a type with a meaning of its own for each text.
type textSetter interface{ setText(string) }

// assign puts the value of a canonical text into a field. Texts were checked, so
// that a number that does not fit is a mistake in a table, which a test finds.
func assign(field any, text string) {
	switch f := field.(type) {
	case *bool:
		*f = text == "true"
	case *int16:
		*f = int16(number(text))
	case *int32:
		*f = int32(number(text))
	case *int64:
		*f = number(text)
	case *time.Duration:
		*f = milliseconds(number(text))
	case *string:
		*f = text
	case *[]string:
		*f = splitList(text)
	case textSetter:
		f.setText(text)
	}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// milliseconds converts without overflow: what is beyond a Duration's 292 years
// becomes the longest one.
func milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if n > most {
		return math.MaxInt64
	}
	return time.Duration(n) * time.Millisecond
}
