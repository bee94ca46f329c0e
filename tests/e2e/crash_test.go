package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// Variables that change how the crash tests run.
const (
	crashRounds = "SLUICE_CRASH_ROUNDS" // how often the program is killed; 8 if it is not set
	crashSeed   = "SLUICE_CRASH_SEED"   // what a failed run printed, to have its choices again
)

// A killed process loses nothing that it said it has, whether it waits for the
// disk (sync) or only hands the bytes to the system (async): what the system was
// given survives the process.
func TestCrashesLoseNothingThatWasAcknowledged(t *testing.T) {
	for _, flush := range []string{"sync", "async"} {
		t.Run("flush="+flush, func(t *testing.T) {
			t.Parallel()
			crashAgainAndAgain(t, "flush="+flush)
		})
	}
}

// crashAgainAndAgain runs a program under load, kills it at random moments and
// starts it again. Producers and consumers live through it all. After every
// start the log is compared with what clients were told and shown.
func crashAgainAndAgain(t *testing.T, flush string) {
	rounds, seed := crashPlan(t)
	t.Logf("%d rounds; to have the same choices again: %s=%d", rounds, crashSeed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	n := node.Start(t, node.Options{Set: []string{
		flush, "flush.interval.ms=20",
		// Small files and memory, so that rolling, sealing, freeing and reading from
		// disk happen all the time.
		"commitlog.segment.bytes=2097152", "commitlog.tail.bytes=1048576", "log.retention.check.interval.ms=200",
	}})
	c := raw.Dial(t, n.Addr())
	l := newLedger(t, makeTopic(t, c, "plain", 8), makeTopic(t, c, "settled", 8, "message.timestamp.type", "LogAppendTime"))
	load := startLoad(t, n.Addr(), l, seed)
	churn := newChurn(t, seed)
	for round := range rounds {
		done := churn.start(n.Addr())
		lives := time.Duration(20+random.IntN(600)) * time.Millisecond
		<-time.After(lives) // not for something to happen: the moment is the test
		if random.IntN(4) == 0 {
			n.Signal(syscall.SIGSTOP) // stands still for a while, as in an overloaded machine
			<-time.After(time.Duration(random.IntN(300)) * time.Millisecond)
			n.Signal(syscall.SIGCONT)
		}
		n.Kill()
		<-done
		for random.IntN(4) == 0 { // nor does it get up
			n.RestartToKill(time.Duration(random.IntN(150)) * time.Millisecond)
		}
		if random.IntN(3) == 0 {
			n.Set(fmt.Sprintf("commitlog.segment.bytes=%d", 2<<(20+random.IntN(3))))
		}
		n.Restart()
		c := raw.Dial(t, n.Addr())
		l.check(c)
		churn.check(c)
		if random.IntN(3) == 0 {
			l.removeChecked(c)
		}
		c.Close()
		if t.Failed() {
			t.Fatalf("round %d of %d, killed after %v", round+1, rounds, lives)
		}
	}
	load.stop()
	c = raw.Dial(t, n.Addr())
	l.check(c)
	l.checkComplete()
	l.checkAgain(c)
	acknowledged, read := l.count()
	t.Logf("%d records were acknowledged, %d were in the log, %d changes were made to other topics; %v segments are left of %v",
		acknowledged, read, churn.changes, n.Metric("sluice_log_segments"), newestSegment(n))
}

func crashPlan(t *testing.T) (rounds int, seed uint64) {
	rounds, seed = 8, rand.Uint64()
	var err error
	if text := os.Getenv(crashRounds); text != "" {
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", crashRounds, err)
		}
	}
	if text := os.Getenv(crashSeed); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", crashSeed, err)
		}
	}
	return rounds, seed
}
