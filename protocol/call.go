package protocol

import (
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Anonymous is the principal of a connection without authentication.
const Anonymous = "User:ANONYMOUS"

// ConnInfo says whose connection it is. ID, Listener and the addresses never
// change. The other fields are written and read in first stages only, which
// run one at a time on a connection; what a second stage needs of them is
// copied before.
type ConnInfo struct {
	ID         uint64 // unique for the life of the process
	Listener   string // name of the listener that accepted it
	LocalAddr  net.Addr
	RemoteAddr net.Addr

	Principal       string // "User:name"; Anonymous without authentication
	SoftwareName    string // as the client's ApiVersions v3+ says; may be empty
	SoftwareVersion string
}

// Call is one request, decoded, with a version that its route serves.
//
// Byte fields of Request (only APIs with Key.Borrows have any) are borrowed for
// Produce: they are valid until the Pending of the call has been resolved, and
// beyond until every Retain has been matched by a Release. (A Response may point
// into them.) Requests of other APIs belong to the handler, which may keep them
// and their bytes for good. A handler changes neither.
//
// While the bytes of a Produce are borrowed, they count against the budget of
// bytes in flight that the whole server has, so they are not kept for longer
// than it takes to copy or write them.
type Call struct {
	Key           Key
	Version       int16
	CorrelationID int32
	ClientID      string // empty for a null client id (Kafka tells them no more apart)
	Conn          *ConnInfo
	Request       kmsg.Request
	FrameBytes    int       // size of the request frame, without the size prefix
	Received      time.Time // when the frame was complete

	// Lease keeps the bytes of Request alive; nil if they need no care. It is
	// set by whoever made the call, and used through Retain and Release.
	Lease Lease
}

// Lease counts the users of borrowed bytes.
type Lease interface {
	Retain()
	Release()
}

// Retain keeps the bytes of the request valid, beyond the resolution of the
// Pending, until Release is called. It is called in the first stage or under
// an earlier Retain. It is safe for concurrent use.
func (c *Call) Retain() {
	if c.Lease != nil {
		c.Lease.Retain()
	}
}

// Release ends what one Retain began. The bytes may be overwritten at once. It
// is safe for concurrent use.
func (c *Call) Release() {
	if c.Lease != nil {
		c.Lease.Release()
	}
}
