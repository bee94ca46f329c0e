package catalog

import (
	"strings"

	"github.com/sluicemq/sluice/protocol/kerr"
)

// MaxNameBytes is the length of the longest topic name.
const MaxNameBytes = 249

// CheckName returns a refusal with INVALID_TOPIC_EXCEPTION if the name cannot be
// a topic's.
func CheckName(name string) error {
	switch {
	case name == "":
		return kerr.New(kerr.InvalidTopic, "a topic name must not be empty")
	case name == "." || name == "..":
		return kerr.New(kerr.InvalidTopic, "%q cannot be a topic name", name)
	case len(name) > MaxNameBytes:
		return kerr.New(kerr.InvalidTopic, "a topic name of %d bytes is too long; at most %d", len(name), MaxNameBytes)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return kerr.New(kerr.InvalidTopic, "the topic name %q has %q in it; allowed are letters, digits, '.', '_' and '-' of ASCII",
				name, name[i])
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// collide reports whether two names differ at most in '.' against '_', which
// Kafka does not allow, since metrics systems take them for the same.
func collide(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && !(isDot(a[i]) && isDot(b[i])) {
			return false
		}
	}
	return true
}

func isDot(c byte) bool { return c == '.' || c == '_' }

// Reserved reports whether a topic of the name may only be made by the broker:
// the internal ones, and those in which it asks producers about half messages.
func Reserved(name string) bool {
	return internalName(name) || strings.HasPrefix(name, "__check_")
}

// internalName reports whether a topic of the name is internal: the names that
// Kafka keeps for itself, which clients take for internal whatever the broker
// says, and those of Sluice's own topics that are not for consumers.
func internalName(name string) bool {
	switch name {
	case "__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata",
		"__schedule", "__half", "__half_expired":
		return true
	}
	return false
}
