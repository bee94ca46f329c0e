package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/log/entry"
)

// pair is a key of the state with its value.
type pair struct{ key, value []byte }

// stored is a state of a few pairs in the order of their keys.
type stored struct {
	pairs []pair
	err   error
}

func (s stored) Get(key []byte) ([]byte, bool, error) {
	for _, p := range s.pairs {
		if string(p.key) == string(key) {
			return p.value, true, nil
		}
	}
	return nil, false, s.err
}

func (s stored) Scan(from, to []byte, visit func(key, value []byte) bool) error {
	for _, p := range s.pairs {
		if string(p.key) >= string(from) && string(p.key) < string(to) && !visit(p.key, p.value) {
			break
		}
	}
	return s.err
}

type noTx struct{ entry.Writer }

func (noTx) CreatePartition(entry.Partition) {}
func (noTx) DeletePartition(entry.Partition) {}

func load(t *testing.T, s stored) error {
	t.Helper()
	broker, err := config.NewBroker(nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(broker).Load(s, noTx{})
}

func TestDamagedStateIsNotLoaded(t *testing.T) {
	topic := func(id byte, name string, runs ...run) pair {
		x := &Topic{name: name, runs: runs, configs: new(configSet)}
		return pair{topicKey(entry.TopicID{id}), appendTopic(nil, x)}
	}
	numbers := func(next entry.Partition) pair { return pair{numbersKey(), appendNumbers(nil, next)} }
	for name, test := range map[string]struct {
		pairs []pair
		want  string // empty: it is sound
	}{
		"nothing":               {nil, ""},
		"two topics":            {[]pair{numbers(6), topic(1, "a", run{3, 2}), topic(2, "b", run{1, 2}, run{5, 1})}, ""},
		"bad topic":             {[]pair{{topicKey(entry.TopicID{1}), []byte{1, 0}}}, "load topic with key 637401"},
		"short key":             {[]pair{numbers(2), {[]byte("ct1"), topic(1, "a", run{1, 1}).value}}, "the key has 3 bytes"},
		"bad broker":            {[]pair{{brokerKey("0"), []byte{1}}}, `load the configs of broker "0"`},
		"bad numbers":           {[]pair{{numbersKey(), []byte{1}}}, "load the next partition number"},
		"same name":             {[]pair{numbers(9), topic(1, "a", run{1, 1}), topic(2, "a", run{2, 1})}, "the name occurs twice"},
		"same number":           {[]pair{numbers(9), topic(1, "a", run{1, 3}), topic(2, "b", run{3, 1})}, "partition number 3 is given twice"},
		"number not yet given":  {[]pair{numbers(2), topic(1, "a", run{1, 2})}, "partition number 2 is not below the next one, 2"},
		"no next number stored": {[]pair{topic(1, "a", run{1, 2})}, "is not below the next one"},
	} {
		t.Run(name, func(t *testing.T) {
			err := load(t, stored{pairs: test.pairs})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v", err)
			case test.want != "" && (!errors.Is(err, ErrPayload) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestUnreadableStateIsAnError(t *testing.T) {
	broken := errors.New("the disk is broken")
	if err := load(t, stored{err: broken}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	numbers := pair{numbersKey(), appendNumbers(nil, 1)}
	if err := load(t, stored{pairs: []pair{numbers}, err: broken}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
