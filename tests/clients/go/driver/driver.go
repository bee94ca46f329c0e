// Package driver lets a Kafka client of the Go world be driven by the matrix runner: one JSON
// request a line comes in, one JSON answer a line goes out. See tests/clients/README.md.
package driver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// Request is one operation.
type Request struct {
	Op                string            `json:"op"`
	Topic             string            `json:"topic"`
	Partition         int32             `json:"partition"`
	Partitions        int32             `json:"partitions"`
	Configs           map[string]string `json:"configs"`
	Kind              string            `json:"kind"`
	Name              string            `json:"name"`
	Keys              []string          `json:"keys"`
	Mode              string            `json:"mode"`
	Changes           []Change          `json:"changes"`
	Records           []Record          `json:"records"`
	Codec             string            `json:"codec"`
	Acks              string            `json:"acks"`
	Idempotent        bool              `json:"idempotent"`
	MaxBytes          int               `json:"max_bytes"`
	PartitionMaxBytes int               `json:"partition_max_bytes"`
	Offset            int64             `json:"offset"`
	Count             int               `json:"count"`
	At                string            `json:"at"`
	Group             string            `json:"group"`
	ID                string            `json:"id"`
	Step              string            `json:"step"`
	Isolation         string            `json:"isolation"`
}

// Change is a change of one config.
type Change struct {
	Key   string  `json:"key"`
	Op    string  `json:"op"`
	Value *string `json:"value"`
}

// Record is a record sent or received. A nil key or value is null.
type Record struct {
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Header is one header of a record.
type Header struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Response answers a request.
type Response struct {
	Code        int16             `json:"code,omitempty"`
	Error       string            `json:"error,omitempty"`
	Unsupported bool              `json:"unsupported,omitempty"`
	Brokers     int               `json:"brokers,omitempty"`
	Cluster     bool              `json:"cluster,omitempty"`
	Controller  bool              `json:"controller,omitempty"`
	Names       []string          `json:"names,omitempty"`
	Partitions  int32             `json:"partitions,omitempty"`
	Replicas    int               `json:"replicas,omitempty"`
	Internal    bool              `json:"internal,omitempty"`
	Configs     map[string]string `json:"configs,omitempty"`
	Offsets     []int64           `json:"offsets,omitempty"`
	Offset      int64             `json:"offset,omitempty"`
	Timestamp   int64             `json:"timestamp,omitempty"`
	Records     []Record          `json:"records,omitempty"`
	Size        int64             `json:"size,omitempty"`
}

// ErrUnsupported says that the client cannot do the operation at all.
var ErrUnsupported = errors.New("unsupported")

// Code is a Kafka error code as an error.
type Code int16

func (c Code) Error() string { return fmt.Sprintf("code %d", int16(c)) }

// Handler does one operation.
type Handler func(ctx context.Context, r *Request) (*Response, error)

// limit bounds an operation, so that a client that retries for ever ends.
const limit = 25 * time.Second

// Serve answers requests until the input ends.
func Serve(handlers map[string]Handler) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var r Request
		resp := &Response{}
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			resp.Error = err.Error()
		} else {
			resp = answer(handlers, &r)
		}
		if err := out.Encode(resp); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func answer(handlers map[string]Handler, r *Request) *Response {
	h := handlers[r.Op]
	if h == nil {
		return &Response{Unsupported: true}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	resp, err := h(ctx, r)
	var code Code
	switch {
	case err == nil && resp == nil:
		return &Response{}
	case err == nil:
		return resp
	case errors.Is(err, ErrUnsupported):
		return &Response{Unsupported: true}
	case errors.As(err, &code):
		return &Response{Code: int16(code)}
	default:
		return &Response{Error: err.Error()}
	}
}
