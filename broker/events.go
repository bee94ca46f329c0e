package broker

import (
	"time"

	"go.uber.org/zap"

	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/state"
)

// logEvents turns what the engine tells into figures and log lines: an operator
// sees what they may act on or will want to know after an accident.
func (b *Broker) logEvents(f *figures) log.Events {
	l := b.logger
	return log.Events{
		CommitLog: commitlog.Events{
			Appended: func(entries int, bytes int64, d time.Duration) {
				f.entries.Add(float64(entries))
				f.appended.Add(float64(bytes))
				f.write.Observe(d.Seconds())
				f.group.Observe(float64(entries))
			},
			Flushed:  func(d time.Duration) { f.fsync.Observe(d.Seconds()) },
			Rolled:   func(number uint32) { l.Info("segment begun", zap.Uint32("segment", number)) },
			Prepared: func(uint32, bool, int64) {},
			PrepareFailed: func(number uint32, err error) {
				b.lines.warn(l, "file for the next segment could not be made ready; it is tried again when it is needed", zap.Uint32("segment", number), because(err))
			},
			Refused: func(entries int, err error) {
				f.refused.Add(float64(entries))
				b.lines.warn(l, "writes are refused", zap.Int("entries", entries), because(err))
			},
			BoundFailed: func(err error) { b.lines.warn(l, "durable bound could not be noted", because(err)) },
			Dead: func(err error) {
				l.Error("the log takes no more writes until a restart; reads are still served", because(err))
			},
		},
		State: state.Events{
			Background: func(err error) { b.lines.warn(l, "state store cannot write; it is tried again", because(err)) },
			Dead:       func(err error) { l.Error("state store failed; no more writes until a restart", because(err)) },
			Flushed:    func(bytes int64, _ time.Duration) { f.stateFlushed.Add(float64(bytes)) },
			Compacted:  func(bytes int64, _ time.Duration) { f.stateCompacted.Add(float64(bytes)) },
			Stalled: func(reason string) {
				b.lines.warn(l, "state store is behind; writes wait", zap.String("reason", reason))
			},
		},
		Sealed: func(segment uint32, d time.Duration) {
			l.Info("segment sealed", zap.Uint32("segment", segment), zap.Duration("took", d))
		},
		SealFailed: func(segment uint32, err error) {
			b.lines.warn(l, "index file of a segment could not be written; it is tried again", zap.Uint32("segment", segment), because(err))
		},
		Freed: func(segment uint32) { l.Info("segment freed", zap.Uint32("segment", segment)) },
		RetainFailed: func(err error) {
			b.lines.warn(l, "retention could not be carried out; it is tried again", because(err))
		},
		Room: func(low bool, free uint64) {
			if low {
				l.Error("the disk is nearly full: records are refused until there is room", zap.Uint64("free_bytes", free))
			} else {
				l.Info("there is room on the disk again: records are accepted", zap.Uint64("free_bytes", free))
			}
		},
		Stopped: func(err error) {
			l.Error("entries can no longer be applied; restart, and if it comes back keep the data folder", because(err))
		},
	}
}

// reportRecovery says in one line what the start found.
func (b *Broker) reportRecovery() {
	r := b.log.Recovery()
	topicCount, partitionCount := b.catalog.Count()
	if r.Torn != nil {
		b.logger.Warn("the log ended in a write that was not completed; it was cut off", zap.String("found", r.Torn.Error()))
	}
	b.logger.Info("data folder is open",
		zap.String("dir", b.dataDir), zap.String("cluster_id", b.log.Meta().ClusterID), zap.Int32("node_id", b.settings.NodeID),
		zap.Bool("new", r.New), zap.Int("segments", r.Segments), zap.Int("replayed", r.Replayed),
		zap.Int("topics", topicCount), zap.Int("partitions", partitionCount), zap.Duration("took", r.Took))
}

func (b *Broker) healthy() error { return b.log.Healthy() }

func (b *Broker) ready() error {
	if err := b.log.Writable(); err != nil {
		return err
	}
	select {
	case <-b.ctx.Done():
		return errStopping
	default:
		return nil
	}
}
