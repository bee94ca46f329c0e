package node

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Line is one line of the program's log.
type Line struct {
	Raw     string
	Level   string // "" when the line is not one of the logger's: a panic, for example
	Message string
	fields  map[string]any
}

func parseLine(text string) Line {
	l := Line{Raw: text}
	if json.Unmarshal([]byte(text), &l.fields) == nil {
		l.Level, l.Message = l.Text("level"), l.Text("msg")
		return l
	}
	// In the format for people: time, level, message, and fields if there are any.
	if parts := strings.SplitN(text, "\t", 4); len(parts) >= 3 {
		l.Level, l.Message = parts[1], parts[2]
		if len(parts) == 4 && json.Unmarshal([]byte(parts[3]), &l.fields) != nil {
			l.Level = "" // no line of the logger's after all
		}
	}
	return l
}

// Text returns a field of the line as text, "" if it is not there.
func (l Line) Text(field string) string {
	switch v := l.fields[field].(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// Mark returns the place in the log where the next line will stand, for Lines
// and WaitLine.
func (n *Node) Mark() int { return n.logs.len() }

// Lines returns the lines that were logged since a Mark.
func (n *Node) Lines(mark int) []Line { return n.logs.since(mark) }

// WaitLine returns the first matching line since a Mark, waiting for it if need
// be, and fails the test if none comes.
func (n *Node) WaitLine(mark int, match func(Line) bool) Line {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), startLimit)
	defer cancel()
	l, err := n.logs.wait(ctx, mark, n.process.exited, match)
	if err != nil {
		n.t.Fatalf("wait for a line in the log: %v\n%s", err, n.logs.text(mark))
	}
	return l
}

// Get asks the program over HTTP and returns status and body.
func (n *Node) Get(path string) (status int, body string) {
	n.t.Helper()
	client := &http.Client{Timeout: startLimit, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + n.http + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// Metric returns the value of a figure; name is with its labels, as /metrics
// shows it. It fails the test if there is no such figure.
func (n *Node) Metric(name string) float64 {
	n.t.Helper()
	_, body := n.Get("/metrics")
	for _, line := range strings.Split(body, "\n") {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			value, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				n.t.Fatalf("metric %s: %v", name, err)
			}
			return value
		}
	}
	n.t.Fatalf("there is no metric %s", name)
	return 0
}

// RSS returns how much memory the program has at the moment, in bytes.
func (n *Node) RSS() int64 { return n.status("VmRSS:") }

// PeakRSS returns how much memory the program has had at most, in bytes.
func (n *Node) PeakRSS() int64 { return n.status("VmHWM:") }

// status reads a line of /proc/PID/status that is in kB.
func (n *Node) status(field string) int64 {
	n.t.Helper()
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(n.PID()), "status"))
	if err != nil {
		n.t.Skip("needs /proc:", err)
	}
	defer file.Close()
	for in := bufio.NewScanner(file); in.Scan(); {
		if rest, ok := strings.CutPrefix(in.Text(), field); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				n.t.Fatal(err)
			}
			return kb << 10
		}
	}
	n.t.Fatalf("no %s in the status of the process", field)
	return 0
}
