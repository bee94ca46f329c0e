package consumer

import (
	"math"
	"time"

	"github.com/sluicemq/sluice/group/assign"
	"github.com/sluicemq/sluice/log/entry"
)

// Settings are the broker's and the group's settings. They do not change; a
// group may be given others.
type Settings struct {
	SessionTimeout    time.Duration
	HeartbeatInterval time.Duration
	// AssignmentInterval is the least time between two computations of a target.
	AssignmentInterval time.Duration
	// RegexRefresh is the most time between two resolutions of patterns.
	RegexRefresh time.Duration
	// Assignors that members may ask for; the first is the default.
	Assignors []string
	// MaxMembers bounds the members of a group, MaxBytes what they say of
	// themselves: subscriptions and, of classic members, protocols.
	MaxMembers int
	MaxBytes   int
	// MaxInline bounds the members, subscriptions and partitions of a group
	// whose target is computed while its requests wait. Others get a Job.
	MaxInline int
	// Downgrade lets a group become a classic one when the last member of the
	// consumer protocol has left; at most ClassicMaxMembers strong.
	Downgrade         bool
	ClassicMaxMembers int
}

// Limits that are not settings.
const (
	// MaxRegexBytes bounds a pattern.
	MaxRegexBytes = 4096
	// maxRegexProgram bounds the instructions that a pattern compiles to; each
	// takes 40 bytes, and time for each byte of each topic's name.
	maxRegexProgram = 20_000
	// regexInterval is the least time between two resolutions for changed topics.
	regexInterval = 10 * time.Second
	// inlineNames bounds the topics among which patterns are resolved while a
	// request waits. Others get a Resolution.
	inlineNames = 2_000
	// soon is when a member is to come again that waits for partitions.
	soon = time.Second
)

// Topics is what a group knows of the catalog. Its methods may be called by any
// goroutine and do not block.
type Topics interface {
	// Topic returns the id and the number of partitions of the topic.
	Topic(name string) (id entry.TopicID, partitions int32, ok bool)
	// Name returns the name of the topic with the id.
	Name(id entry.TopicID) (name string, ok bool)
	// Version grows with every change of a topic, before or when it is seen.
	Version() uint64
	// Count returns how many topics there are.
	Count() int
	// Names calls visit for each topic that clients may subscribe to, until it
	// returns false.
	Names(visit func(name string) bool)
}

// DefaultSettings returns Kafka's defaults, and bounds that no application of
// whatever size meets.
func DefaultSettings() *Settings {
	return &Settings{
		SessionTimeout: 45 * time.Second, HeartbeatInterval: 5 * time.Second, AssignmentInterval: time.Second,
		RegexRefresh: 10 * time.Minute, Assignors: assign.Names(),
		MaxMembers: math.MaxInt32, MaxBytes: 32 << 20, MaxInline: 10_000,
		Downgrade: true, ClassicMaxMembers: math.MaxInt32,
	}
}
