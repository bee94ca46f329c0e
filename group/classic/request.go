package classic

import "time"

// Ticket names a request whose answer may have to wait. The shell gives each a
// number of its own; 0 is none.
type Ticket uint64

// Join is a JoinGroup request.
type Join struct {
	Ticket                           Ticket
	MemberID                         string // empty: a member that has none yet
	NewID                            string // the id to give it then, unique for ever
	Instance                         string
	ClientID, ClientHost             string
	SessionTimeout, RebalanceTimeout time.Duration
	ProtocolType                     string
	Protocols                        []Protocol // kept
	// IDRequired: a new dynamic member is told its id before it may join (version 4).
	IDRequired bool
	// SkipAssignment: the client knows that a leader may be told not to divide
	// the work (version 9).
	SkipAssignment bool
}

// Joined is the answer to a Join.
type Joined struct {
	Err                            error // a kerr.Error; MEMBER_ID_REQUIRED comes with the MemberID
	MemberID                       string
	Generation                     int32 // -1 with an error
	ProtocolType, Protocol, Leader string
	Members                        []Subscription // for the leader
	SkipAssignment                 bool
}

// Subscription is what the leader is told of a member.
type Subscription struct {
	MemberID, Instance string
	Metadata           []byte
}

// Sync is a SyncGroup request.
type Sync struct {
	Ticket             Ticket
	MemberID, Instance string
	Generation         int32
	// The protocol that the client believes in; nil if it does not say.
	ProtocolType, Protocol *string
	Assignments            []Assignment // from the leader; kept
}

// Assignment is the work of a member.
type Assignment struct {
	MemberID   string
	Assignment []byte
}

// Synced is the answer to a Sync.
type Synced struct {
	Err                    error // a kerr.Error
	ProtocolType, Protocol string
	Assignment             []byte
}

// Leaver names a member that leaves: by its member id, by its instance id, or by
// both.
type Leaver struct {
	MemberID, Instance string
}

// Output is what the shell is to do after a call. It is appended to, in the order
// in which things happened.
type Output struct {
	Joined  []JoinAnswer
	Synced  []SyncAnswer
	Entries []Entry

	// Events, for figures and log lines.
	Completed int       // rebalances that came to an end
	Expired   []Expired // members removed for their silence, or because they did not join again in time
}

// Expired is a member that was removed though it did not leave.
type Expired struct {
	ID    string
	Heard time.Time // when it was last heard of
}

func (o *Output) expire(m *member) { o.Expired = append(o.Expired, Expired{m.ID, m.heard}) }

// JoinAnswer answers the request with the ticket.
type JoinAnswer struct {
	Ticket Ticket
	Joined
}

// SyncAnswer answers the request with the ticket.
type SyncAnswer struct {
	Ticket Ticket
	Synced
}

// Entry is to be proposed. Exactly one of Metadata (TypeClassicGroup) and
// Replacement (TypeClassicMember) is set. What became of it is told with
// Group.Stored.
type Entry struct {
	Number      uint64 // names the entry within the group
	Metadata    *Metadata
	Replacement *Replacement
}
