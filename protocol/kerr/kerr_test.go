package kerr_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	franz "github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicemq/sluice/protocol/kerr"
)

const lastCode = kerr.ControllerIDNotRegistered

func TestCodesHaveNoGapsAndEachIsDescribed(t *testing.T) {
	names := map[string]kerr.Code{}
	for c := kerr.UnknownServerError; c <= lastCode; c++ {
		if !c.Known() {
			t.Errorf("code %d is not in the table", c)
			continue
		}
		if other, ok := names[c.String()]; ok {
			t.Errorf("%d and %d are both called %s", c, other, c)
		}
		names[c.String()] = c
		if text := c.Text(); text == "" || strings.HasSuffix(text, ".") {
			t.Errorf("%s: text %q", c, text)
		}
		if c.RefreshesMetadata() && !c.Retriable() {
			t.Errorf("%s refreshes metadata but is not retriable", c)
		}
	}
	if (lastCode + 1).Known() {
		t.Errorf("code %d is known; lastCode is too low", lastCode+1)
	}
}

// The names and flags were taken from Kafka; franz-go took them from there on
// its own, so that a slip in one shows.
func TestNamesAndFlagsAgreeWithFranz(t *testing.T) {
	differs := map[kerr.Code]string{}
	for c := kerr.UnknownServerError; c <= lastCode; c++ {
		if c == kerr.None {
			continue
		}
		var want *franz.Error
		if !errors.As(franz.ErrorForCode(c.Int16()), &want) || want.Code != c.Int16() {
			differs[c] = "not known to franz-go"
			continue
		}
		if want.Message != c.String() && c != kerr.NotLeaderOrFollower { // there by its older name
			t.Errorf("code %d is %s here and %s there", c, c, want.Message)
		}
		if want.Retriable != c.Retriable() {
			differs[c] = fmt.Sprintf("retriable here %v, there %v", c.Retriable(), want.Retriable)
		}
	}
	// Where the two differ, Kafka's own table is followed here.
	for _, c := range []kerr.Code{
		kerr.BrokerNotAvailable, kerr.ConcurrentTransactions,
		kerr.ShareSessionNotFound, kerr.InvalidShareSessionEpoch,
	} {
		delete(differs, c)
	}
	for c, why := range differs {
		t.Errorf("%s: %s", c, why)
	}
}

func TestCodesKeepTheirNumbers(t *testing.T) {
	for code, want := range map[kerr.Code]int16{
		kerr.UnknownServerError:       -1,
		kerr.None:                     0,
		kerr.CorruptMessage:           2,
		kerr.InvalidTopic:             17,
		kerr.OutOfOrderSequenceNumber: 45,
		kerr.KafkaStorageError:        56,
		kerr.InvalidRecord:            87,
		kerr.UnknownTopicID:           100,
		kerr.TransactionAbortable:     120,
	} {
		if code.Int16() != want {
			t.Errorf("%s is %d, want %d", code, code, want)
		}
	}
}

func TestOfAndMessage(t *testing.T) {
	refusal := kerr.New(kerr.InvalidRecord, "header %s: %q", "sluice-delay", "x")
	bare := kerr.New(kerr.MessageTooLarge, "")
	var typedNil *kerr.Error
	for _, c := range []struct {
		name    string
		err     error
		code    kerr.Code
		message string
	}{
		{"nil", nil, kerr.None, ""},
		{"refusal", refusal, kerr.InvalidRecord, `header sluice-delay: "x"`},
		{"wrapped", fmt.Errorf("propose: %w", refusal), kerr.InvalidRecord, `header sluice-delay: "x"`},
		{"joined", errors.Join(io.EOF, refusal), kerr.InvalidRecord, `header sluice-delay: "x"`},
		{"no message", bare, kerr.MessageTooLarge, kerr.MessageTooLarge.Text()},
		{"foreign", fmt.Errorf("open /secret: %w", io.EOF), kerr.UnknownServerError, kerr.UnknownServerError.Text()},
		{"typed nil", typedNil, kerr.UnknownServerError, kerr.UnknownServerError.Text()},
	} {
		if got := kerr.Of(c.err); got != c.code {
			t.Errorf("%s: code %s, want %s", c.name, got, c.code)
		}
		if got := kerr.Message(c.err); got != c.message {
			t.Errorf("%s: message %q, want %q", c.name, got, c.message)
		}
	}
}

func TestNewOfNoneIsNil(t *testing.T) {
	if err := kerr.New(kerr.None, "never seen"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestErrorsIsAsksForTheCode(t *testing.T) {
	err := fmt.Errorf("append: %w", kerr.New(kerr.RequestTimedOut, "5 s"))
	if !errors.Is(err, &kerr.Error{Code: kerr.RequestTimedOut}) {
		t.Error("same code does not match")
	}
	if errors.Is(err, &kerr.Error{Code: kerr.InvalidRecord}) {
		t.Error("another code matches")
	}
	if errors.Is(err, &kerr.Error{Code: kerr.RequestTimedOut, Message: "6 s"}) {
		t.Error("another message matches")
	}
}

func TestErrorShowsNameAndMessage(t *testing.T) {
	if got := kerr.New(kerr.InvalidPartitions, "0").Error(); got != "INVALID_PARTITIONS: 0" {
		t.Errorf("got %q", got)
	}
	if got := kerr.Code(999).String(); got != "CODE_999" {
		t.Errorf("got %q", got)
	}
}
