package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupsResetCommand struct {
	connection
	Group      string    `arg:"" help:"The group. One that does not exist is made."`
	Topic      string    `required:"" help:"The topic."`
	Partition  []int32   `placeholder:"P" help:"Only these partitions; all if not given."`
	ToEarliest bool      `xor:"to" required:"" help:"To the first record that there is."`
	ToLatest   bool      `xor:"to" required:"" help:"Behind the last record that there is."`
	ToOffset   *int64    `xor:"to" required:"" placeholder:"N" help:"To an offset; to the first or the end where it lies outside."`
	ToDatetime time.Time `xor:"to" required:"" placeholder:"RFC3339" help:"To the first record of that time or later, such as 2030-01-31T15:04:05Z."`
	Execute    bool      `help:"Do it, rather than show it."`
}

// reset is what reset prints.
type reset struct {
	Group    string        `json:"group"`
	Executed bool          `json:"executed"`
	Offsets  []resetOffset `json:"offsets"`
}

type resetOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"from"` // null if nothing was committed
	To        int64  `json:"to"`
}

// Run resets. The broker refuses the commit if a member has come meanwhile.
func (r *groupsResetCommand) Run() error {
	if r.ToOffset != nil && *r.ToOffset < 0 {
		return fmt.Errorf("--to-offset is %d, and must not be negative", *r.ToOffset)
	}
	return r.with(func(ctx context.Context, admin *kadm.Client) error {
		found, err := describeGroup(ctx, admin, r.Group)
		var coded exitError
		switch {
		case errors.As(err, &coded) && coded.code == notFound:
			found = &describedGroup{}
		case err != nil:
			return err
		}
		if n := len(found.Members); n > 0 {
			return r.busy(fmt.Sprintf("%d members", n))
		}
		targets, err := r.targets(ctx, admin)
		if err != nil {
			return err
		}
		out, err := r.plan(ctx, admin, targets)
		if err != nil {
			return err
		}
		if r.Execute {
			if err := r.commit(ctx, admin, out); err != nil {
				return err
			}
		}
		return r.print(out, func(w io.Writer) { out.text(w) })
	})
}

func (r *groupsResetCommand) busy(who string) error {
	return exitError{fmt.Errorf("group %q has %s, and its offsets were left alone: stop them first", r.Group, who), inUse}
}

// targets returns the offset for each partition.
func (r *groupsResetCommand) targets(ctx context.Context, admin *kadm.Client) (map[int32]int64, error) {
	starts, err := r.listed(admin.ListStartOffsets(ctx, r.Topic))
	if err != nil {
		return nil, err
	}
	ends, err := r.listed(admin.ListEndOffsets(ctx, r.Topic))
	if err != nil {
		return nil, err
	}
	var timed map[int32]int64
	if !r.ToDatetime.IsZero() {
		if timed, err = r.listed(admin.ListOffsetsAfterMilli(ctx, r.ToDatetime.UnixMilli(), r.Topic)); err != nil {
			return nil, err
		}
	}
	out := make(map[int32]int64)
	for partition, end := range ends {
		if len(r.Partition) > 0 && !slices.Contains(r.Partition, partition) {
			continue
		}
		switch {
		case r.ToEarliest:
			out[partition] = starts[partition]
		case r.ToLatest:
			out[partition] = end
		case r.ToOffset != nil:
			out[partition] = min(max(*r.ToOffset, starts[partition]), end)
		default:
			out[partition] = timed[partition]
		}
	}
	for _, partition := range r.Partition {
		if _, ok := out[partition]; !ok {
			return nil, exitError{fmt.Errorf("topic %q has no partition %d", r.Topic, partition), notFound}
		}
	}
	return out, nil
}

// listed returns the offsets by partition.
func (r *groupsResetCommand) listed(found kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = found.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && len(found[r.Topic]) == 0:
		return nil, exitError{fmt.Errorf("there is no topic %q", r.Topic), notFound}
	case err != nil:
		return nil, fmt.Errorf("list the offsets of topic %q: %w", r.Topic, err)
	}
	out := make(map[int32]int64)
	for partition, o := range found[r.Topic] {
		out[partition] = o.Offset
	}
	return out, nil
}

// plan puts what was committed beside what is to be.
func (r *groupsResetCommand) plan(ctx context.Context, admin *kadm.Client, targets map[int32]int64) (*reset, error) {
	committed, err := admin.FetchOffsetsForTopics(ctx, r.Group, r.Topic)
	if err != nil {
		return nil, fmt.Errorf("fetch the offsets of group %q: %w", r.Group, err)
	}
	out := &reset{Group: r.Group, Executed: r.Execute}
	for partition, to := range targets {
		row := resetOffset{Topic: r.Topic, Partition: partition, To: to}
		if o, ok := committed.Lookup(r.Topic, partition); ok && o.Err == nil && o.At >= 0 {
			row.From = &o.At
		}
		out.Offsets = append(out.Offsets, row)
	}
	slices.SortFunc(out.Offsets, func(a, b resetOffset) int { return cmp.Compare(a.Partition, b.Partition) })
	return out, nil
}

func (r *groupsResetCommand) commit(ctx context.Context, admin *kadm.Client, plan *reset) error {
	var wanted kadm.Offsets
	for _, o := range plan.Offsets {
		wanted.AddOffset(o.Topic, o.Partition, o.To, -1)
	}
	answers, err := admin.CommitOffsets(ctx, r.Group, wanted)
	if err == nil {
		err = answers.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.RebalanceInProgress):
		return r.busy("members now")
	case err != nil:
		return fmt.Errorf("commit the offsets of group %q: %w", r.Group, err)
	}
	return nil
}

func (r *reset) text(w io.Writer) {
	fmt.Fprintln(w, "TOPIC\tPARTITION\tFROM\tTO")
	for _, o := range r.Offsets {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\n", o.Topic, o.Partition, number(o.From), o.To)
	}
	if !r.Executed {
		fmt.Fprintln(w, "nothing was changed; --execute does it")
	}
}
