package txn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/txn"
	"github.com/sluicemq/sluice/txn/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine has one transaction that is due from a time on, and ids that are idle.
type machine struct {
	due  entry.Time
	idle []string
}

func (m *machine) Overdue(now entry.Time) []kafka.End {
	if now < m.due {
		return nil
	}
	return []kafka.End{{ID: "x", TimedOut: true}}
}

func (m *machine) Idle(_ entry.Time, _ int64, most int) []string {
	return m.idle[:min(most, len(m.idle))]
}

func TestTransactionIsAbortedWithinASecondOfItsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		m := &machine{due: entry.TimeOf(start.Add(10 * time.Second))}
		aborted := make(chan time.Duration, 10)
		k := txn.New(txn.Options{Machine: m, Expiration: time.Hour,
			Abort: func(_ context.Context, ends []kafka.End) error {
				m.due = entry.TimeOf(start.Add(time.Hour))
				aborted <- time.Since(start)
				return nil
			},
			Forget: func(context.Context, *kafka.Expire) error { return nil },
			Failed: func(err error) { t.Error(err) },
		})
		k.Start()
		defer k.Stop()
		if after := <-aborted; after < 10*time.Second || after > 11*time.Second {
			t.Errorf("aborted after %v", after)
		}
		time.Sleep(20 * time.Second)
		if len(aborted) != 0 {
			t.Error("aborted twice")
		}
	})
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{idle: []string{"a", "b"}}
		full := errors.New("disk full")
		var told []string
		tries := 0
		k := txn.New(txn.Options{Machine: m, Expiration: time.Hour,
			Abort: func(context.Context, []kafka.End) error {
				if tries++; tries < 3 {
					return full
				}
				m.due = 1 << 60
				return nil
			},
			Forget: func(_ context.Context, q *kafka.Expire) error {
				if q.ExpirationMs != 3600_000 {
					t.Errorf("expiration %d", q.ExpirationMs)
				}
				m.idle = m.idle[len(q.IDs):]
				return nil
			},
			Failed: func(err error) { told = append(told, err.Error()) },
		})
		k.Start()
		time.Sleep(2 * time.Minute)
		k.Stop()
		want := "[abort transactions that took too long: disk full abort transactions that took too long: disk full]"
		if got := fmt.Sprint(told); got != want || tries != 3 || len(m.idle) != 0 {
			t.Errorf("told %s, %d tries, idle %v", got, tries, m.idle)
		}
	})
}

func TestStopEndsWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := txn.New(txn.Options{Machine: &machine{}, Expiration: time.Hour,
			Abort:  func(ctx context.Context, _ []kafka.End) error { <-ctx.Done(); return ctx.Err() },
			Forget: func(context.Context, *kafka.Expire) error { return nil },
			Failed: func(err error) { t.Error(err) },
		})
		k.Start()
		time.Sleep(5 * time.Second)
		k.Stop()
		k.Stop()
	})
}
