package broker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/group"
	"github.com/sluicemq/sluice/group/classic"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/kerr"
)

// Bounds of a group: its metadata are one entry of the log, and clients can have
// member ids handed out without end.
const (
	maxGroupBytes     = 32 << 20
	maxPendingMembers = 10_000
)

// newGroups returns the coordinator of groups over the state.
func (b *Broker) newGroups(state *group.State) *group.Coordinator {
	s := b.settings
	return group.New(group.Options{
		State: state, Proposer: groupProposer{b},
		Limits: classic.Limits{
			MinSessionTimeout: s.GroupMinSession, MaxSessionTimeout: s.GroupMaxSession,
			InitialDelay: s.GroupInitialDelay, MaxMembers: int(s.GroupMaxSize),
			MaxBytes: int(min(maxGroupBytes, s.SegmentBytes/4)), MaxPending: maxPendingMembers,
		},
		Assignors: s.Consumers.Assignors, Consumer: b.consumerSettings, Topics: subscribable{b.catalog},
		Ordering: lockable{b.catalog}, Lease: s.Consumers.LockLease, Upgrade: s.Consumers.Migration.Upgrade,
		Retention:  time.Duration(s.OffsetsRetentionMinutes) * time.Minute,
		CheckEvery: s.OffsetsRetentionCheck,
		Rebalanced: func(name string, generation int32, members int) {
			b.logger.Info("group is stable", zap.String("group", name), zap.Int32("generation", generation), zap.Int("members", members))
		},
		Rebalances: func(name string, epoch int32, members int) {
			b.logger.Info("group rebalances", zap.String("group", name), zap.Int32("epoch", epoch), zap.Int("members", members))
		},
		MemberExpired: func(name, member string) {
			b.logger.Debug("member expired", zap.String("group", name), zap.String("member", member))
		},
		ExpireFailed: func(err error) {
			b.lines.warn(b.logger, "expired offsets could not be forgotten; trying again", because(err))
		},
	})
}

// groupProposer is the log as groups see it.
type groupProposer struct{ *Broker }

func (p groupProposer) Propose(t entry.Type, payload []byte, done func(entry.Result)) error {
	return p.log.Propose(&log.Proposal{Type: t, Payload: payload, Waiter: doneFunc(done)})
}

// doneFunc hands the result of a proposal to a function.
type doneFunc func(entry.Result)

func (f doneFunc) Done(_ *log.Proposal, r entry.Result) {
	r.Err = log.Refusal(r.Err)
	f(r)
}

// topicNames is the catalog as groups see it.
type topicNames struct{ *catalog.Catalog }

// TopicName implements group.TopicLookup.
func (t topicNames) TopicName(id entry.TopicID) (string, bool) {
	topic := t.TopicByID(id)
	if topic == nil {
		return "", false
	}
	return topic.Name(), true
}

// leash ties a held request to its connection: when that goes away, gone is
// called, unless the request was answered before.
type leash struct {
	mu       sync.Mutex
	stop     func() bool
	answered bool
}

// hold is called when the request is with the coordinator.
func (l *leash) hold(ctx context.Context, gone func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answered {
		l.stop = context.AfterFunc(ctx, gone)
	}
}

// release is called when the request is answered.
func (l *leash) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
	if l.stop != nil {
		l.stop()
	}
}

// joinGroup answers JoinGroup (G-3 to G-12): when the join phase of the rebalance
// is over.
func (b *Broker) joinGroup(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.JoinGroupRequest)
	q := &classic.Join{
		MemberID: request.MemberID, Instance: text(request.InstanceID),
		ClientID: c.ClientID, ClientHost: clientHost(c.Conn.RemoteAddr),
		SessionTimeout:   millis(request.SessionTimeoutMillis),
		RebalanceTimeout: millis(request.RebalanceTimeoutMillis),
		ProtocolType:     request.ProtocolType,
		IDRequired:       c.Version >= 4,
		SkipAssignment:   c.Version >= 9,
	}
	if c.Version == 0 {
		q.RebalanceTimeout = q.SessionTimeout
	}
	if q.MemberID == "" {
		q.NewID = newMemberID(c.ClientID, q.Instance)
	}
	seen := make(map[string]bool, len(request.Protocols))
	for i := range request.Protocols {
		if p := &request.Protocols[i]; !seen[p.Name] {
			seen[p.Name] = true
			q.Protocols = append(q.Protocols, classic.Protocol{Name: p.Name, Metadata: p.Metadata})
		}
	}
	promise, tie := protocol.NewPromise(), &leash{}
	ticket := b.groups.Join(request.Group, q, func(a classic.Joined) {
		promise.Resolve(protocol.Response{Message: joinAnswer(request, &a)})
		tie.release()
	})
	tie.hold(ctx, func() { b.groups.Gone(request.Group, ticket) })
	return promise
}

func joinAnswer(request *kmsg.JoinGroupRequest, a *classic.Joined) kmsg.Response {
	response := request.ResponseKind().(*kmsg.JoinGroupResponse)
	response.ErrorCode = kerr.Of(a.Err).Int16()
	response.MemberID, response.Generation = a.MemberID, a.Generation
	if a.Err != nil {
		return response
	}
	response.ProtocolType, response.Protocol = &a.ProtocolType, &a.Protocol
	response.LeaderID, response.SkipAssignment = a.Leader, a.SkipAssignment
	response.Members = make([]kmsg.JoinGroupResponseMember, len(a.Members))
	for i := range a.Members {
		in, out := &a.Members[i], &response.Members[i]
		*out = kmsg.NewJoinGroupResponseMember()
		out.MemberID, out.InstanceID, out.ProtocolMetadata = in.MemberID, textOrNil(in.Instance), in.Metadata
	}
	return response
}

// syncGroup answers SyncGroup (G-13): when the leader has divided the work.
func (b *Broker) syncGroup(ctx context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.SyncGroupRequest)
	response := request.ResponseKind().(*kmsg.SyncGroupResponse)
	if c.Version >= 5 && (request.ProtocolType == nil || request.Protocol == nil) {
		response.ErrorCode = kerr.InconsistentGroupProtocol.Int16()
		return protocol.Answer(response)
	}
	q := &classic.Sync{
		MemberID: request.MemberID, Instance: text(request.InstanceID), Generation: request.Generation,
		ProtocolType: request.ProtocolType, Protocol: request.Protocol,
		Assignments: make([]classic.Assignment, len(request.GroupAssignment)),
	}
	for i := range request.GroupAssignment {
		in := &request.GroupAssignment[i]
		q.Assignments[i] = classic.Assignment{MemberID: in.MemberID, Assignment: in.MemberAssignment}
	}
	promise, tie := protocol.NewPromise(), &leash{}
	ticket := b.groups.Sync(request.Group, q, func(a classic.Synced) {
		response.ErrorCode = kerr.Of(a.Err).Int16()
		if a.Err == nil {
			response.ProtocolType, response.Protocol, response.MemberAssignment = &a.ProtocolType, &a.Protocol, a.Assignment
		}
		promise.Resolve(protocol.Response{Message: response})
		tie.release()
	})
	tie.hold(ctx, func() { b.groups.Gone(request.Group, ticket) })
	return promise
}

// heartbeat answers Heartbeat (G-15).
func (b *Broker) heartbeat(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.HeartbeatRequest)
	response := request.ResponseKind().(*kmsg.HeartbeatResponse)
	err := b.groups.Heartbeat(request.Group, request.MemberID, text(request.InstanceID), request.Generation)
	response.ErrorCode = kerr.Of(err).Int16()
	return protocol.Answer(response)
}

// leaveGroup answers LeaveGroup (G-18): of one member, or of several from version
// 3 on.
func (b *Broker) leaveGroup(_ context.Context, c *protocol.Call) protocol.Pending {
	request := c.Request.(*kmsg.LeaveGroupRequest)
	response := request.ResponseKind().(*kmsg.LeaveGroupResponse)
	leavers := []classic.Leaver{{MemberID: request.MemberID}}
	if c.Version >= 3 {
		leavers = make([]classic.Leaver, len(request.Members))
		for i := range request.Members {
			leavers[i] = classic.Leaver{MemberID: request.Members[i].MemberID, Instance: text(request.Members[i].InstanceID)}
		}
	}
	promise := protocol.NewPromise()
	b.groups.Leave(request.Group, leavers, func(errs []error, err error) {
		switch {
		case err != nil:
			response.ErrorCode = kerr.Of(err).Int16()
		case c.Version < 3:
			response.ErrorCode = kerr.Of(errs[0]).Int16()
		default:
			response.Members = make([]kmsg.LeaveGroupResponseMember, len(errs))
			for i := range errs {
				response.Members[i] = kmsg.NewLeaveGroupResponseMember()
				response.Members[i].MemberID, response.Members[i].InstanceID = request.Members[i].MemberID, request.Members[i].InstanceID
				response.Members[i].ErrorCode = kerr.Of(errs[i]).Int16()
			}
		}
		promise.Resolve(protocol.Response{Message: response})
	})
	return promise
}

// newMemberID makes a member id as Kafka's are: the name that a client goes by,
// and a random part.
func newMemberID(clientID, instance string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process if it must
	name := clientID
	if instance != "" {
		name = instance
	}
	id := hex.EncodeToString(b[:])
	return name + "-" + id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
}

// clientHost returns the client's address as Kafka shows it.
func clientHost(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return "/" + tcp.IP.String()
	}
	return "/" + a.String()
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func millis(n int32) time.Duration { return time.Duration(max(n, 0)) * time.Millisecond }
