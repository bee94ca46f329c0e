package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

type groupsCommand struct {
	List     groupsListCommand     `cmd:"" help:"List the groups."`
	Describe groupsDescribeCommand `cmd:"" help:"Show a group: its members, what each works on, and how far behind it is."`
	Reset    groupsResetCommand    `cmd:"" help:"Set the committed offsets of a group without members. Shows what would be done, until --execute is given."`
	Delete   groupsDeleteCommand   `cmd:"" help:"Delete a group without members, with its committed offsets."`
}

// Help is shown by sluice groups --help.
func (groupsCommand) Help() string {
	return "Exit codes: 0 done, 1 the work failed, 3 there is no such group, topic or partition, 4 the group has members and so was left alone, " +
		"80 the command line is wrong."
}

type groupsListCommand struct {
	connection
	State []string `placeholder:"STATE" help:"Only groups in these states: Empty, PreparingRebalance, CompletingRebalance, Stable, …"`
	Kind  []string `placeholder:"KIND" help:"Only groups of these kinds: classic, consumer, share."`
}

// listedGroup is what list prints of a group.
type listedGroup struct {
	Group        string `json:"group"`
	Kind         string `json:"kind"`
	State        string `json:"state"`
	ProtocolType string `json:"protocol_type"`
}

// Run lists.
func (l *groupsListCommand) Run() error {
	return l.with(func(ctx context.Context, admin *kadm.Client) error {
		found, err := admin.ListGroupsByType(ctx, l.Kind, l.State...)
		if err != nil {
			return fmt.Errorf("list groups: %w", err)
		}
		out := make([]listedGroup, 0, len(found))
		for _, g := range found.Sorted() {
			out = append(out, listedGroup{g.Group, g.GroupType, g.State, g.ProtocolType})
		}
		return l.print(out, func(w io.Writer) {
			fmt.Fprintln(w, "GROUP\tKIND\tSTATE\tPROTOCOL TYPE")
			for _, g := range out {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.Group, orDash(g.Kind), g.State, orDash(g.ProtocolType))
			}
		})
	})
}

type groupsDescribeCommand struct {
	connection
	Group string `arg:"" help:"The group."`
}

// describedGroup is what describe prints.
type describedGroup struct {
	Group        string            `json:"group"`
	Kind         string            `json:"kind"`
	State        string            `json:"state"`
	ProtocolType string            `json:"protocol_type"`
	Protocol     string            `json:"protocol"`
	Members      []describedMember `json:"members"`
	Partitions   []describedOffset `json:"partitions"`
}

type describedMember struct {
	ID       string             `json:"id"`
	Instance string             `json:"instance,omitempty"`
	Client   string             `json:"client_id"`
	Host     string             `json:"host"`
	Assigned map[string][]int32 `json:"assigned"` // partitions by topic
}

// describedOffset is a partition that somebody in the group works on, or has.
// What is not known is null.
type describedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"`
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
	Metadata  string `json:"metadata,omitempty"`
	Member    string `json:"member,omitempty"`
}

// Run describes.
func (d *groupsDescribeCommand) Run() error {
	return d.with(func(ctx context.Context, admin *kadm.Client) error {
		out, err := describeGroup(ctx, admin, d.Group)
		if err != nil {
			return err
		}
		if err := out.measure(ctx, admin); err != nil {
			return err
		}
		return d.print(out, out.text)
	})
}

func noGroup(name string) error {
	return exitError{fmt.Errorf("there is no group %q", name), notFound}
}

// describeGroup returns a group of whatever kind with its members, or noGroup.
func describeGroup(ctx context.Context, admin *kadm.Client, name string) (*describedGroup, error) {
	classic, err := admin.DescribeGroups(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("describe group %q: %w", name, err)
	}
	g := classic[name]
	if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("describe group %q: %w", name, g.Err)
	}
	if g.Err != nil || g.State == "Dead" {
		return describeConsumerGroup(ctx, admin, name)
	}
	out := &describedGroup{Group: name, Kind: "classic", State: g.State, ProtocolType: g.ProtocolType, Protocol: g.Protocol, Members: []describedMember{}}
	for i := range g.Members {
		m := &g.Members[i]
		member := describedMember{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost, Assigned: map[string][]int32{}}
		if m.InstanceID != nil {
			member.Instance = *m.InstanceID
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				member.Assigned[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
			}
		}
		out.Members = append(out.Members, member)
	}
	return out, nil
}

// describeConsumerGroup is describeGroup for the newer consumer protocol. A broker
// that does not speak it has no such group.
func describeConsumerGroup(ctx context.Context, admin *kadm.Client, name string) (*describedGroup, error) {
	found, err := admin.DescribeConsumerGroups(ctx, name)
	g, ok := found[name]
	if err != nil || !ok || g.Err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, err
		}
		return nil, noGroup(name)
	}
	out := &describedGroup{Group: name, Kind: "consumer", State: g.State, ProtocolType: "consumer", Protocol: g.AssignorName, Members: []describedMember{}}
	for i := range g.Members {
		m := &g.Members[i]
		member := describedMember{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost, Assigned: map[string][]int32{}}
		if m.InstanceID != nil {
			member.Instance = *m.InstanceID
		}
		for topic, partitions := range m.Assignment {
			member.Assigned[topic] = slices.Sorted(maps.Keys(partitions))
		}
		out.Members = append(out.Members, member)
	}
	return out, nil
}

// measure adds the partitions that the group has offsets of, or members for.
func (d *describedGroup) measure(ctx context.Context, admin *kadm.Client) error {
	committed, err := admin.FetchOffsets(ctx, d.Group)
	if err != nil {
		return fmt.Errorf("fetch the offsets of group %q: %w", d.Group, err)
	}
	type place struct {
		topic     string
		partition int32
	}
	rows := make(map[place]*describedOffset)
	row := func(topic string, partition int32) *describedOffset {
		at := place{topic, partition}
		if rows[at] == nil {
			rows[at] = &describedOffset{Topic: topic, Partition: partition}
		}
		return rows[at]
	}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			r := row(o.Topic, o.Partition)
			r.Committed, r.Metadata = &o.At, o.Metadata
		}
	})
	for i := range d.Members {
		for topic, partitions := range d.Members[i].Assigned {
			for _, p := range partitions {
				row(topic, p).Member = d.Members[i].ID
			}
		}
	}
	d.Partitions = []describedOffset{}
	if len(rows) == 0 {
		return nil
	}
	topics := make(map[string]bool)
	for at := range rows {
		topics[at.topic] = true
	}
	ends, err := admin.ListEndOffsets(ctx, slices.Sorted(maps.Keys(topics))...)
	if err != nil {
		return fmt.Errorf("list the ends of the partitions: %w", err)
	}
	for _, r := range rows {
		if end, ok := ends.Lookup(r.Topic, r.Partition); ok && end.Err == nil {
			r.End = &end.Offset
			if r.Committed != nil {
				lag := max(*r.End-*r.Committed, 0)
				r.Lag = &lag
			}
		}
		d.Partitions = append(d.Partitions, *r)
	}
	slices.SortFunc(d.Partitions, func(a, b describedOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return nil
}

func (d *describedGroup) text(w io.Writer) {
	fmt.Fprintf(w, "group %s, %s, %s", d.Group, d.Kind, d.State)
	if d.Protocol != "" {
		fmt.Fprintf(w, ", protocol %s", d.Protocol)
	}
	fmt.Fprintf(w, ", %d members\n", len(d.Members))
	if len(d.Members) > 0 {
		fmt.Fprintln(w, "\nMEMBER\tINSTANCE\tCLIENT\tHOST\tASSIGNED")
	}
	for _, m := range d.Members {
		var assigned []string
		for _, topic := range slices.Sorted(maps.Keys(m.Assigned)) {
			assigned = append(assigned, topic+":"+ranges(m.Assigned[topic]))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", m.ID, orDash(m.Instance), orDash(m.Client), m.Host, orDash(strings.Join(assigned, " ")))
	}
	if len(d.Partitions) > 0 {
		fmt.Fprintln(w, "\nTOPIC\tPARTITION\tCOMMITTED\tEND\tLAG\tMEMBER")
	}
	for _, p := range d.Partitions {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", p.Topic, p.Partition, number(p.Committed), number(p.End), number(p.Lag), orDash(p.Member))
	}
}

type groupsDeleteCommand struct {
	connection
	Group string `arg:"" help:"The group."`
}

// Run deletes.
func (d *groupsDeleteCommand) Run() error {
	return d.with(func(ctx context.Context, admin *kadm.Client) error {
		answer, err := admin.DeleteGroup(ctx, d.Group)
		if err == nil {
			err = answer.Err
		}
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
			return noGroup(d.Group)
		case errors.Is(err, kerr.NonEmptyGroup):
			return exitError{fmt.Errorf("group %q has members, and was not deleted: stop them first", d.Group), inUse}
		case err != nil:
			return fmt.Errorf("delete group %q: %w", d.Group, err)
		}
		out := struct {
			Group   string `json:"group"`
			Deleted bool   `json:"deleted"`
		}{d.Group, true}
		return d.print(out, func(w io.Writer) { fmt.Fprintf(w, "group %s is deleted\n", d.Group) })
	})
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// ranges writes sorted numbers as 0-3,7.
func ranges(numbers []int32) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(int(numbers[i]))
		if j > i {
			part += "-" + strconv.Itoa(int(numbers[j]))
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
