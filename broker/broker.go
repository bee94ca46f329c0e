package broker

import (
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/sluicemq/sluice/broker/fetchsession"
	"github.com/sluicemq/sluice/catalog"
	"github.com/sluicemq/sluice/catalog/config"
	"github.com/sluicemq/sluice/group"
	"github.com/sluicemq/sluice/log"
	"github.com/sluicemq/sluice/log/apply"
	"github.com/sluicemq/sluice/log/commitlog"
	"github.com/sluicemq/sluice/log/consumequeue"
	"github.com/sluicemq/sluice/log/entry"
	"github.com/sluicemq/sluice/log/vfs"
	"github.com/sluicemq/sluice/metrics"
	"github.com/sluicemq/sluice/protocol"
	"github.com/sluicemq/sluice/protocol/conn"
	"github.com/sluicemq/sluice/txn"
	"github.com/sluicemq/sluice/txn/kafka"
	"github.com/sluicemq/sluice/txn/producer"
)

// Broker is a running broker.
type Broker struct {
	settings *config.Broker // as given at the start; catalog.Broker has what was altered since
	dataDir  string         // absolute
	logger   *zap.Logger

	catalog    *catalog.Catalog
	producers  *producer.Machine
	txns       *kafka.Machine
	keeper     *txn.Keeper  // of the time of transactions
	timedOut   atomic.Int64 // transactions
	groupState *group.State
	groups     *group.Coordinator
	log        *log.Log
	sessions   *fetchsession.Cache
	fetches    sync.Pool    // *fetching
	fetched    atomic.Int64 // bytes of records in responses to Fetch that are on their way
	decoders   decoders
	describing chan struct{} // has a slot for each large answer to DescribeConfigs
	routes     *protocol.Routes
	server     *conn.Server
	http       *metrics.Server
	addresses  map[string]address // advertised, by listener
	lines      lines

	ctx      context.Context // ends when Stop begins
	end      context.CancelFunc
	stopOnce sync.Once
	chores   sync.WaitGroup
}

// address is where clients are told to connect to.
type address struct {
	host string
	port int32
}

// Start opens the data folder and serves. When it returns without error, every
// listener takes requests.
func Start(settings *config.Broker, logger *zap.Logger) (_ *Broker, err error) {
	b := &Broker{settings: settings, logger: logger, decoders: newDecoders(), describing: make(chan struct{}, manyConfigsSlots)}
	b.ctx, b.end = context.WithCancel(context.Background())
	if b.dataDir, err = filepath.Abs(settings.DataDir); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	figures := newFigures(registry)
	// Listeners are bound first: an address in use should not cost a recovery.
	if err = b.listen(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.abandon()
		}
	}()
	b.catalog = catalog.New(settings)
	b.producers = producer.New()
	b.txns = kafka.New()
	b.keeper = b.newTransactionKeeper()
	b.groupState = group.NewState(topicNames{b.catalog})
	if b.log, err = log.Open(b.logOptions(figures)); err != nil {
		return nil, err
	}
	b.groups = b.newGroups(b.groupState)
	b.groups.Start()
	b.keeper.Start()
	b.sessions = fetchsession.New(fetchsession.Options{Slots: int(settings.FetchSessions)}, randomID)
	if b.routes, err = protocol.NewRoutes(b.table()); err != nil {
		return nil, err
	}
	if settings.HTTPListen != "" {
		figures.watch(b)
		b.http, err = metrics.Listen(settings.HTTPListen, metrics.Options{Registry: registry, Healthy: b.healthy, Ready: b.ready})
		if err != nil {
			return nil, fmt.Errorf("listen for http: %w", err)
		}
		logger.Info("listening for http", zap.Stringer("address", b.http.Addr()))
	}
	b.chores.Add(1)
	go b.expireProducers()
	b.reportRecovery()
	b.server.Serve(b.routes)
	return b, nil
}

func (b *Broker) listen() error {
	o := conn.Options{
		MaxConnections:      int(b.settings.MaxConnections),
		MaxConnectionsPerIP: int(b.settings.MaxConnectionsPerIP),
		MaxRequestBytes:     int(b.settings.MaxRequestBytes),
		QueuedBytes:         b.settings.QueuedRequestBytes,
		IdleTimeout:         b.settings.MaxIdle,
		Log:                 b.logger,
	}
	for _, l := range b.settings.Listeners {
		o.Listeners = append(o.Listeners, conn.Listener{Name: l.Name, Address: l.Address()})
	}
	var err error
	if b.server, err = conn.Open(o); err != nil {
		return err
	}
	b.addresses = make(map[string]address)
	for _, l := range b.settings.AdvertisedListeners {
		a := address{host: l.Host, port: int32(l.Port)}
		if a.port == 0 {
			if bound, ok := b.server.Addr(l.Name).(*net.TCPAddr); ok {
				a.port = int32(bound.Port)
			}
		}
		if a.host == "" {
			if a.host, err = os.Hostname(); err != nil {
				return fmt.Errorf("advertised.listeners of %s has no host, and the machine no name: %w", l.Name, err)
			}
		}
		b.addresses[l.Name] = a
	}
	return nil
}

func (b *Broker) logOptions(figures *figures) log.Options {
	s := b.settings
	flush := commitlog.FlushSync
	if s.Flush == config.FlushAsync {
		flush = commitlog.FlushAsync
	}
	return log.Options{
		FS: vfs.Disk(), Dir: b.dataDir, Meta: log.Meta{ClusterID: newClusterID(), NodeID: s.NodeID},
		Appliers: []apply.Applier{
			topics{b.catalog, b.groupState}, producers{b.producers}, groups{b.groupState, b.txns},
			transactions{b.txns, b.producers, b.groupState},
		},
		Judge:        judge{b.producers, b.txns},
		Policies:     b.policies,
		SegmentBytes: s.SegmentBytes, Flush: flush, FlushInterval: s.FlushInterval,
		TailBytes: s.TailBytes, BacklogBytes: s.BacklogBytes, StateCacheBytes: s.StateCacheBytes,
		MinFreeBytes: s.MinFreeBytes, RetainEvery: s.RetentionCheckInterval,
		Events: b.logEvents(figures),
	}
}

// policies yields how much of each partition is kept.
func (b *Broker) policies(yield func(entry.Partition, consumequeue.Retention) bool) {
	for topic := range b.catalog.Topics("") {
		c := topic.Config()
		if !c.Cleanup.Delete() || c.RetentionMs < 0 && c.RetentionBytes < 0 {
			continue
		}
		for _, p := range topic.All() {
			if !yield(p, consumequeue.Retention{Ms: c.RetentionMs, Bytes: c.RetentionBytes}) {
				return
			}
		}
	}
}

// producerChecks is how often producers that have been silent for long are
// looked for; forgetAtOnce is how many one entry forgets.
const (
	producerChecks = 10 * time.Second
	forgetAtOnce   = 10_000
)

// expireProducers tells the log the limits for producers, and proposes to
// forget those that are beyond them, until Stop. Started by Start.
func (b *Broker) expireProducers() {
	defer b.chores.Done()
	ticker := time.NewTicker(producerChecks)
	defer ticker.Stop()
	for {
		limits := producer.Limits{Expiration: b.catalog.Broker().ProducerIDExpiration, Producers: producer.DefaultLimits.Producers}
		for b.producers.Limits() != limits || b.producers.Overdue(entry.TimeOf(time.Now())) {
			payload, err := producer.EncodeExpire(limits, forgetAtOnce)
			if err == nil {
				_, err = b.doOne(b.ctx, entry.TypeExpireProducers, payload)
			}
			if err != nil && b.ctx.Err() == nil {
				b.logger.Warn("producers that expired were not forgotten; trying again", because(err))
			}
			if err != nil {
				break
			}
		}
		select {
		case <-b.ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Addr returns the address that a listener is bound to, or nil.
func (b *Broker) Addr(listener string) net.Addr { return b.server.Addr(listener) }

// HTTPAddr returns the address of the HTTP side door, or nil.
func (b *Broker) HTTPAddr() net.Addr {
	if b.http == nil {
		return nil
	}
	return b.http.Addr()
}

// Stop ends the broker: it stops taking requests, answers those it has within
// the grace time, and closes the data folder. Calls after the first do nothing.
func (b *Broker) Stop() error {
	var err error
	b.stopOnce.Do(func() { err = b.stop() })
	return err
}

func (b *Broker) stop() error {
	b.end()
	b.groups.Stop()
	b.keeper.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), b.settings.ShutdownGrace)
	defer cancel()
	var errs []error
	if err := b.server.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		errs = append(errs, err)
	}
	b.chores.Wait()
	errs = append(errs, b.log.Close())
	if b.http != nil {
		errs = append(errs, b.http.Close())
	}
	return errors.Join(errs...)
}

// abandon closes what a failed start has opened.
func (b *Broker) abandon() {
	b.end()
	_ = b.server.Close() // the failure of Start is the news, here and below
	b.chores.Wait()
	if b.keeper != nil {
		b.keeper.Stop()
	}
	if b.groups != nil {
		b.groups.Stop()
	}
	if b.log != nil {
		_ = b.log.Close()
	}
	if b.http != nil {
		_ = b.http.Close()
	}
}

// advertised returns where clients of a listener are told to connect to.
func (b *Broker) advertised(listener string) address { return b.addresses[listener] }

func (b *Broker) rack() *string {
	if b.settings.Rack == "" {
		return nil
	}
	return &b.settings.Rack
}

// newClusterID returns a random id in the form of Kafka's: 22 characters.
func newClusterID() string {
	id := newTopicID()
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func randomID() uint32 {
	var b [4]byte
	_, _ = crand.Read(b[:]) // never fails: crypto/rand ends the process if it must
	return binary.LittleEndian.Uint32(b[:])
}
