package consumer

import (
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/group/classic"
)

// Ticket names a request whose answer may have to wait.
type Ticket = classic.Ticket

// Heartbeat is a ConsumerGroupHeartbeat request. It is kept until it is answered.
type Heartbeat struct {
	Ticket               Ticket
	MemberID             string
	NewID                string // the id for a member that joins without one
	Epoch                int32  // 0 joins, -1 leaves, -2 leaves for now
	ClientID, ClientHost string

	// What follows is absent if it is as it was.

	Instance         *string
	Rack             *string
	RebalanceTimeout time.Duration // negative: absent
	Topics           []string      // names in any order
	HasTopics        bool
	Regex            *string
	Assignor         *string
	Owned            *assign.Assignment

	// Visible reports whether the member may know of a topic; nil: all.
	Visible func(topic string) bool
}

// Beaten is the answer to a Heartbeat.
type Beaten struct {
	Err      error // a kerr.Error
	MemberID string
	Epoch    int32
	Interval time.Duration      // until the next heartbeat
	Assigned *assign.Assignment // nil: as before
}

// Leave is a LeaveGroup request. It is kept until it is answered.
type Leave struct {
	Ticket  Ticket
	Leavers []classic.Leaver
}

// Left is the answer to a Leave: an error or nil for each leaver.
type Left struct {
	Err  error // for all
	Errs []error
}

// Output is what the shell is to do after a call. It is appended to.
type Output struct {
	Beaten []BeatenAnswer
	Joined []classic.JoinAnswer
	Left   []LeftAnswer

	// Entry is to be proposed; what became of it is told with Group.Stored. No
	// other comes before that.
	Entry *Entry
	// Job is to be run, away from the group, and handed to Group.Assigned.
	Job *Job
	// Resolution is to be run, away from the group, and handed to Group.Resolved.
	Resolution *Resolution
	// Rerouted are requests that are for the classic group which this one has
	// become: *classic.Join, *Leave or *Heartbeat.
	Rerouted []any

	// Events, for figures and log lines.
	Rebalances int       // times the group epoch grew
	Expired    []Expired // members removed for their silence, or for being slow
}

// Expired is a member that was removed, with when it was last heard of.
type Expired struct {
	ID    string
	Heard time.Time
}

// BeatenAnswer answers the request with the ticket.
type BeatenAnswer struct {
	Ticket Ticket
	Beaten
}

// LeftAnswer answers the request with the ticket.
type LeftAnswer struct {
	Ticket Ticket
	Left
}

// Entry is to be proposed: either Change (TypeConsumerGroup), or Downgrade
// (TypeDowngradeGroup).
type Entry struct {
	Change    *Change
	Downgrade *Downgrade
}
