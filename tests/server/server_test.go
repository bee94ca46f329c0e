package server

import (
	"slices"
	"testing"
)

func TestListeningLineIsFoundInEveryLogFormat(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"level":"info","ts":1,"msg":"listening","addr":"127.0.0.1:4711"}`, "127.0.0.1:4711"},
		{`{"level":"info","ts":1,"msg":"http listening","addr":"127.0.0.1:4712"}`, ""},
		{`{"level":"info","msg":"recovered","addr":"127.0.0.1:4712"}`, ""},
		{"2026-01-01T00:00:00Z\tinfo\tlistening\t{\"addr\": \"127.0.0.1:4713\"}", "127.0.0.1:4713"},
		{"2026-01-01 INFO listening addr=127.0.0.1:4714", "127.0.0.1:4714"},
		{"2026-01-01\tinfo\tlistening\t{\"http\": \"127.0.0.1:4715\"}", ""},
	} {
		if got, _ := listening([]byte(c.text)); got != c.want {
			t.Errorf("listening(%q) = %q, want %q", c.text, got, c.want)
		}
	}
}

func TestProgramIsNotConfiguredByWhatIsMeantForTests(t *testing.T) {
	got := environment([]string{"HOME=/root", "SLUICE_ORACLE=require", "SLUICE_TEST_CACHE=/tmp", "PATH=/bin"})
	if want := []string{"HOME=/root", "PATH=/bin"}; !slices.Equal(got, want) {
		t.Errorf("environment = %q, want %q", got, want)
	}
}
