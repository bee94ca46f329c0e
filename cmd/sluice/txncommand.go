package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type txnCommand struct {
	List     txnListCommand     `cmd:"" help:"List the transactional ids."`
	Describe txnDescribeCommand `cmd:"" help:"Show a transactional id: its producer, and what its transaction has."`
	Abort    txnAbortCommand    `cmd:"" help:"Abort the open transaction of a transactional id, and fence its producer. With --topic: end what is open of one producer in one partition, and leave its transaction alone."`
	Hanging  txnHangingCommand  `cmd:"" help:"List transactions that are open in partitions, but that nobody will end: their coordinator does not know them."`
}

// Help is shown by sluice txn --help.
func (txnCommand) Help() string {
	return "Exit codes: 0 done, 1 the work failed, 3 there is no such transactional id, topic or partition, 80 the command line is wrong."
}

type txnListCommand struct {
	connection
	State      []string      `placeholder:"STATE" help:"Only those in these states: Empty, Ongoing, CompleteCommit, CompleteAbort."`
	ProducerID []int64       `name:"producer-id" placeholder:"ID" help:"Only those with these producer ids."`
	LongerThan time.Duration `name:"longer-than" placeholder:"DURATION" help:"Only those with a transaction that is open for longer."`
}

// listedTransaction is what list prints of a transactional id.
type listedTransaction struct {
	ID         string `json:"transactional_id"`
	ProducerID int64  `json:"producer_id"`
	State      string `json:"state"`
}

// Run lists.
func (l *txnListCommand) Run() error {
	return l.with(func(ctx context.Context, admin *kadm.Client) error {
		found, err := admin.ListTransactions(ctx, l.ProducerID, l.State)
		if err != nil {
			return fmt.Errorf("list transactions: %w", err)
		}
		out := make([]listedTransaction, 0, len(found))
		for _, x := range found.Sorted() {
			out = append(out, listedTransaction{x.TxnID, x.ProducerID, x.State})
		}
		if l.LongerThan > 0 {
			if out, err = l.older(ctx, admin, out); err != nil {
				return err
			}
		}
		return l.print(out, func(w io.Writer) {
			fmt.Fprintln(w, "TRANSACTIONAL ID\tPRODUCER ID\tSTATE")
			for _, x := range out {
				fmt.Fprintf(w, "%s\t%d\t%s\n", x.ID, x.ProducerID, x.State)
			}
		})
	})
}

// older keeps those that have a transaction open for longer than was asked for.
func (l *txnListCommand) older(ctx context.Context, admin *kadm.Client, all []listedTransaction) ([]listedTransaction, error) {
	all = slices.DeleteFunc(all, func(x listedTransaction) bool { return x.State != "Ongoing" })
	if len(all) == 0 {
		return all, nil
	}
	ids := make([]string, len(all))
	for i, x := range all {
		ids[i] = x.ID
	}
	described, err := admin.DescribeTransactions(ctx, ids...)
	if err != nil {
		return nil, fmt.Errorf("describe transactions: %w", err)
	}
	return slices.DeleteFunc(all, func(x listedTransaction) bool {
		d, ok := described[x.ID]
		return !ok || d.Err != nil || d.State != "Ongoing" || time.Since(time.UnixMilli(d.StartTimestamp)) <= l.LongerThan
	}), nil
}

type txnDescribeCommand struct {
	connection
	ID string `arg:"" name:"transactional-id" help:"The transactional id."`
}

// describedTransaction is what describe prints.
type describedTransaction struct {
	ID         string               `json:"transactional_id"`
	ProducerID int64                `json:"producer_id"`
	Epoch      int16                `json:"producer_epoch"`
	State      string               `json:"state"`
	TimeoutMs  int32                `json:"timeout_ms"`
	Started    string               `json:"started,omitempty"`
	OpenMs     int64                `json:"open_ms,omitempty"`
	Partitions []namedTxnPartitions `json:"partitions"`
}

type namedTxnPartitions struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
}

// Run describes.
func (d *txnDescribeCommand) Run() error {
	return d.with(func(ctx context.Context, admin *kadm.Client) error {
		x, err := describeTransaction(ctx, admin, d.ID)
		if err != nil {
			return err
		}
		out := describedTransaction{ID: x.TxnID, ProducerID: x.ProducerID, Epoch: x.ProducerEpoch, State: x.State,
			TimeoutMs: x.TimeoutMillis, Partitions: []namedTxnPartitions{}}
		if x.StartTimestamp >= 0 {
			began := time.UnixMilli(x.StartTimestamp).UTC()
			out.Started = began.Format("2006-01-02T15:04:05.000Z")
			if x.State == "Ongoing" {
				out.OpenMs = time.Since(began).Milliseconds()
			}
		}
		for _, t := range x.Topics.Sorted() {
			out.Partitions = append(out.Partitions, namedTxnPartitions{t.Topic, t.Partitions})
		}
		return d.print(out, func(w io.Writer) {
			fmt.Fprintf(w, "transactional id\t%s\n", out.ID)
			fmt.Fprintf(w, "producer id\t%d\n", out.ProducerID)
			fmt.Fprintf(w, "epoch\t%d\n", out.Epoch)
			fmt.Fprintf(w, "state\t%s\n", out.State)
			fmt.Fprintf(w, "time-out\t%v\n", time.Duration(out.TimeoutMs)*time.Millisecond)
			fmt.Fprintf(w, "started\t%s\n", orDash(out.Started))
			if out.State == "Ongoing" {
				fmt.Fprintf(w, "open for\t%v\n", time.Duration(out.OpenMs)*time.Millisecond)
			}
			for _, t := range out.Partitions {
				fmt.Fprintf(w, "partitions of %s\t%s\n", t.Topic, strings.Trim(fmt.Sprint(t.Partitions), "[]"))
			}
		})
	})
}

func describeTransaction(ctx context.Context, admin *kadm.Client, id string) (kadm.DescribedTransaction, error) {
	all, err := admin.DescribeTransactions(ctx, id)
	x, ok := all[id]
	if err == nil && ok {
		err = x.Err
	}
	switch {
	case errors.Is(err, kerr.TransactionalIDNotFound) || err == nil && !ok:
		return x, exitError{fmt.Errorf("there is no transactional id %q", id), notFound}
	case err != nil:
		return x, fmt.Errorf("describe transaction: %w", err)
	}
	return x, nil
}

type txnAbortCommand struct {
	connection
	ID         string `arg:"" optional:"" name:"transactional-id" help:"The transactional id."`
	Topic      string `placeholder:"TOPIC" help:"End what is open in a partition of this topic."`
	Partition  int32  `placeholder:"N" default:"-1" help:"The partition."`
	ProducerID int64  `name:"producer-id" placeholder:"ID" default:"-1" help:"The producer of which something is open in the partition."`
}

// abortedTransaction is what abort prints.
type abortedTransaction struct {
	ID         string `json:"transactional_id,omitempty"`
	Topic      string `json:"topic,omitempty"`
	Partition  int32  `json:"partition"`
	ProducerID int64  `json:"producer_id"`
	Epoch      int16  `json:"producer_epoch"`
	Aborted    bool   `json:"aborted"`
}

// Validate is called by kong.
func (a *txnAbortCommand) Validate() error {
	switch {
	case (a.ID == "") == (a.Topic == ""):
		return errors.New("give a transactional id, or --topic with --partition and --producer-id")
	case a.Topic != "" && (a.Partition < 0 || a.ProducerID < 0):
		return errors.New("--topic needs --partition and --producer-id")
	}
	return nil
}

// Run aborts.
func (a *txnAbortCommand) Run() error {
	return a.withClient(func(ctx context.Context, client *kgo.Client) error {
		out, err := a.byID(ctx, client)
		if a.ID == "" {
			out, err = a.inPartition(ctx, kadm.NewClient(client))
		}
		if err != nil {
			return err
		}
		return a.print(out, func(w io.Writer) {
			switch {
			case a.ID == "":
				fmt.Fprintf(w, "aborted in partition %d of %s what producer %d had open there\n", out.Partition, out.Topic, out.ProducerID)
			case out.Aborted:
				fmt.Fprintf(w, "aborted the transaction of %s; its producer is fenced\n", out.ID)
			default:
				fmt.Fprintf(w, "%s had no open transaction; its producer is fenced\n", out.ID)
			}
		})
	})
}

// byID asks for the producer id as a new instance of the producer would.
func (a *txnAbortCommand) byID(ctx context.Context, client *kgo.Client) (abortedTransaction, error) {
	out := abortedTransaction{ID: a.ID, Partition: -1, ProducerID: -1}
	if a.ID == "" {
		return out, nil
	}
	// Asking for one that is not there would make it.
	x, err := describeTransaction(ctx, kadm.NewClient(client), a.ID)
	if err != nil {
		return out, err
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = &a.ID, x.TimeoutMillis
	req.ProducerID, req.ProducerEpoch = -1, -1
	for {
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if errors.Is(err, kerr.ConcurrentTransactions) && ctx.Err() == nil {
			continue // it is being ended; the deadline of the command bounds this
		}
		if err != nil {
			return out, fmt.Errorf("abort: %w", err)
		}
		out.ProducerID, out.Epoch, out.Aborted = resp.ProducerID, resp.ProducerEpoch, x.State == "Ongoing"
		return out, nil
	}
}

// inPartition writes a marker for a producer into one partition.
func (a *txnAbortCommand) inPartition(ctx context.Context, admin *kadm.Client) (abortedTransaction, error) {
	out := abortedTransaction{Topic: a.Topic, Partition: a.Partition, ProducerID: a.ProducerID}
	set := kadm.TopicsSet{a.Topic: {a.Partition: {}}}
	topics, err := admin.ListTopics(ctx, a.Topic)
	if err != nil {
		return out, fmt.Errorf("list topics: %w", err)
	}
	if _, ok := topics[a.Topic].Partitions[a.Partition]; !ok {
		return out, exitError{fmt.Errorf("there is no partition %d of %q", a.Partition, a.Topic), notFound}
	}
	producers, err := admin.DescribeProducers(ctx, set)
	if err != nil {
		return out, fmt.Errorf("describe producers: %w", err)
	}
	var found *kadm.DescribedProducer
	for _, p := range producers.SortedPartitions() {
		if p.Err != nil {
			return out, fmt.Errorf("describe producers: %w", p.Err)
		}
		for _, x := range p.ActiveProducers.Sorted() {
			if x.ProducerID == a.ProducerID && x.CurrentTxnStartOffset >= 0 {
				found = &x
			}
		}
	}
	if found == nil {
		return out, exitError{fmt.Errorf("producer %d has nothing open in partition %d of %q", a.ProducerID, a.Partition, a.Topic), notFound}
	}
	out.Epoch = found.ProducerEpoch
	written, err := admin.WriteTxnMarkers(ctx, kadm.TxnMarkers{
		ProducerID: a.ProducerID, ProducerEpoch: found.ProducerEpoch, CoordinatorEpoch: found.CoordinatorEpoch, Topics: set,
	})
	for _, p := range written.SortedPartitions() {
		err = errors.Join(err, p.Err)
	}
	if err != nil {
		return out, fmt.Errorf("write marker: %w", err)
	}
	out.Aborted = true
	return out, nil
}

type txnHangingCommand struct {
	connection
	Topic     []string      `placeholder:"TOPIC" help:"Only partitions of these topics; all if not given."`
	OlderThan time.Duration `name:"older-than" default:"15m" placeholder:"DURATION" help:"Only what nothing was written to for longer (${default}): no transaction takes longer than transaction.max.timeout.ms."`
}

// hangingTransaction is what hanging prints.
type hangingTransaction struct {
	Topic        string `json:"topic"`
	Partition    int32  `json:"partition"`
	ProducerID   int64  `json:"producer_id"`
	Epoch        int16  `json:"producer_epoch"`
	Start        int64  `json:"start_offset"`
	LastWritten  string `json:"last_written"`
	TransactedBy string `json:"transactional_id,omitempty"`
}

// Run looks for hanging transactions.
func (h *txnHangingCommand) Run() error {
	return h.with(func(ctx context.Context, admin *kadm.Client) error {
		out, err := h.find(ctx, admin)
		if err != nil {
			return err
		}
		return h.print(out, func(w io.Writer) {
			fmt.Fprintln(w, "TOPIC\tPARTITION\tPRODUCER ID\tEPOCH\tSTART OFFSET\tLAST WRITTEN\tTRANSACTIONAL ID")
			for _, x := range out {
				fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", x.Topic, x.Partition, x.ProducerID, x.Epoch, x.Start, x.LastWritten, orDash(x.TransactedBy))
			}
		})
	})
}

func (h *txnHangingCommand) find(ctx context.Context, admin *kadm.Client) ([]hangingTransaction, error) {
	topics, err := admin.ListTopics(ctx, h.Topic...)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics.Sorted() {
		if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
			return nil, exitError{fmt.Errorf("there is no topic %q", t.Topic), notFound}
		}
	}
	producers, err := admin.DescribeProducers(ctx, topics.TopicsSet())
	if err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	out := []hangingTransaction{}
	var ids []int64
	for _, x := range producers.SortedProducers() {
		last := time.UnixMilli(x.LastTimestamp)
		if x.CurrentTxnStartOffset >= 0 && time.Since(last) >= h.OlderThan {
			out = append(out, hangingTransaction{Topic: x.Topic, Partition: x.Partition, ProducerID: x.ProducerID, Epoch: x.ProducerEpoch,
				Start: x.CurrentTxnStartOffset, LastWritten: last.UTC().Format("2006-01-02T15:04:05.000Z")})
			ids = append(ids, x.ProducerID)
		}
	}
	if len(out) == 0 {
		return out, nil
	}
	known, err := openTransactions(ctx, admin, ids)
	if err != nil {
		return nil, err
	}
	out = slices.DeleteFunc(out, func(x hangingTransaction) bool {
		by, ok := known[x.ProducerID]
		if !ok || by.State != "Ongoing" {
			return false
		}
		_, has := by.Topics[x.Topic][x.Partition]
		return has // its coordinator will end it
	})
	for i := range out {
		out[i].TransactedBy = known[out[i].ProducerID].TxnID
	}
	slices.SortFunc(out, func(a, b hangingTransaction) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Start, b.Start))
	})
	return out, nil
}

// openTransactions describes the transactions of producers, by producer id.
func openTransactions(ctx context.Context, admin *kadm.Client, producers []int64) (map[int64]kadm.DescribedTransaction, error) {
	listed, err := admin.ListTransactions(ctx, producers, nil)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	known := make(map[int64]kadm.DescribedTransaction, len(listed))
	if len(listed) == 0 {
		return known, nil
	}
	described, err := admin.DescribeTransactions(ctx, listed.TransactionalIDs()...)
	if err != nil {
		return nil, fmt.Errorf("describe transactions: %w", err)
	}
	for _, x := range described {
		if x.Err == nil {
			known[x.ProducerID] = x
		}
	}
	return known, nil
}
