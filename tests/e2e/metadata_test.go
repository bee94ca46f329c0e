package e2e

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicemq/sluice/tests/e2e/node"
	"github.com/sluicemq/sluice/tests/e2e/raw"
)

// B10
func TestTopicsHaveIDsHoweverTheyWereMade(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	made := makeTopic(t, c, "made", 1)
	metadata(c, 9, true, "asked")
	if _, err := kcatProduce(t, n, "x\n", "-t", "written"); err != nil {
		t.Fatal(err)
	}
	ids := map[string][16]byte{}
	look := func() {
		t.Helper()
		for version := int16(10); version <= 13; version++ {
			r := raw.Ask[*kmsg.MetadataResponse](c, version, kmsg.NewPtrMetadataRequest())
			if len(r.Topics) != 3 {
				t.Fatalf("Metadata v%d has %d topics", version, len(r.Topics))
			}
			for _, topic := range r.Topics {
				before, known := ids[*topic.Topic]
				if topic.TopicID == [16]byte{} || known && topic.TopicID != before {
					t.Errorf("Metadata v%d: topic %s has id %x, before %x", version, *topic.Topic, topic.TopicID, before)
				}
				ids[*topic.Topic] = topic.TopicID
			}
		}
	}
	look()
	if ids["made"] != made.id {
		t.Errorf("CreateTopics answered id %x, Metadata %x", made.id, ids["made"])
	}
	n.Kill()
	n.Restart()
	c = raw.Dial(t, n.Addr())
	look()
	for name := range ids {
		if _, err := kcatProduce(t, n, "y\n", "-t", name); err != nil {
			t.Error(err)
		}
		want := 1
		if name == "written" {
			want = 2
		}
		if got := kcatConsume(t, n, name, 0, want); len(got) != want {
			t.Errorf("kcat read %d records of %s", len(got), name)
		}
		if got := franzConsume(t, n, name, 0, want); len(got) != want {
			t.Errorf("franz-go read %d records of %s", len(got), name)
		}
	}
}

// kcatProduce sends lines as records, without trying anything twice.
func kcatProduce(t testing.TB, n *node.Node, lines string, args ...string) (string, error) {
	t.Helper()
	return tryKcat(t, n, lines, append([]string{"-P", "-X", "retries=0", "-X", "message.timeout.ms=30000"}, args...)...)
}

// B16
func TestLookingAtATopicDoesNotMakeItUnlessBothSidesAllowThat(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"true", "false"} {
		t.Run("auto.create.topics.enable="+setting, func(t *testing.T) {
			t.Parallel()
			n := node.Start(t, node.Options{Set: []string{"auto.create.topics.enable=" + setting}})
			c := raw.Dial(t, n.Addr())
			for version := range int16(14) {
				name := fmt.Sprint("v", version)
				if version >= 4 {
					if r := metadata(c, version, false, name); r.Topics[0].ErrorCode != unknownTopic || len(r.Topics[0].Partitions) != 0 {
						t.Errorf("Metadata v%d that allows nothing: %+v", version, r.Topics[0])
					}
				}
				r := metadata(c, version, true, name)
				switch topic := r.Topics[0]; setting {
				case "true":
					if topic.ErrorCode != 0 || len(topic.Partitions) != 1 || topic.Partitions[0].Leader != 0 {
						t.Errorf("Metadata v%d that allows creation: %+v", version, topic)
					}
				default:
					if topic.ErrorCode != unknownTopic {
						t.Errorf("Metadata v%d where the broker does not allow creation: %+v", version, topic)
					}
				}
			}
			admin := newAdmin(t, n)
			details, err := admin.ListTopics(deadline(t), "looked-at")
			if err != nil || details["looked-at"].Err == nil {
				t.Errorf("kadm.ListTopics of a missing topic: %v, %v", details, err)
			}
			kcat(t, n, "", "-L", "-t", "kcat-looked")
			topics := map[string]bool{}
			for _, topic := range raw.Ask[*kmsg.MetadataResponse](c, 12, kmsg.NewPtrMetadataRequest()).Topics {
				topics[*topic.Topic] = true
			}
			want := 0
			if setting == "true" {
				want = 15 // those of the versions, and kcat's
			}
			if len(topics) != want || topics["looked-at"] {
				t.Errorf("%d topics are there, want %d: %v", len(topics), want, topics)
			}
			if r := metadata(c, 12, true, "not a name", ".."); r.Topics[0].ErrorCode != invalidTopic || r.Topics[1].ErrorCode != invalidTopic {
				t.Errorf("bad names: %+v", r.Topics)
			}
		})
	}
}

// B17
func TestTheFirstRecordOfATopicThatDoesNotExistIsAccepted(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"num.partitions=3"}})
	const count = 100
	franz := newFranz(t, n, kgo.AllowAutoTopicCreation(), kgo.RecordRetries(1), kgo.UnknownTopicRetries(0))
	producer := saramaProducer(t, n, func(c *sarama.Config) { c.Producer.Retry.Max = 0 })
	clients := map[string]func(topic string) error{
		"kcat": func(topic string) error {
			_, err := kcatProduce(t, n, "x\n", "-t", topic)
			return err
		},
		"franz-go": func(topic string) error {
			return franz.ProduceSync(deadline(t), &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr()
		},
		"sarama": func(topic string) error {
			_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x")})
			return err
		},
	}
	var running sync.WaitGroup
	for client, send := range clients {
		running.Go(func() {
			for i := range count {
				if err := send(fmt.Sprint(client, i)); err != nil {
					t.Errorf("%s, topic %d: %v", client, i, err)
					return
				}
			}
		})
	}
	running.Wait()
	topics := raw.Ask[*kmsg.MetadataResponse](raw.Dial(t, n.Addr()), 12, kmsg.NewPtrMetadataRequest()).Topics
	if len(topics) != 3*count {
		t.Errorf("%d topics, want %d", len(topics), 3*count)
	}
	for _, topic := range topics {
		if len(topic.Partitions) != 3 {
			t.Errorf("topic %s has %d partitions", *topic.Topic, len(topic.Partitions))
		}
	}
}

// B19
func TestTheCoordinatorIsANodeOfTheMetadata(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{Set: []string{"node.id=7"}})
	for version := range int16(7) {
		c := raw.Dial(t, n.Addr()) // the very first request of an empty broker, the first time
		for kind := range int8(2) {
			if version == 0 && kind == 1 {
				continue
			}
			request := kmsg.NewPtrFindCoordinatorRequest()
			request.CoordinatorType, request.CoordinatorKey, request.CoordinatorKeys = kind, "some", []string{"some", "other"}
			r := raw.Ask[*kmsg.FindCoordinatorResponse](c, version, request)
			found := r.Coordinators
			if version < 4 {
				one := kmsg.NewFindCoordinatorResponseCoordinator()
				one.NodeID, one.Host, one.Port, one.ErrorCode = r.NodeID, r.Host, r.Port, r.ErrorCode
				found = append(found, one)
			} else if len(found) != 2 {
				t.Fatalf("FindCoordinator v%d of two keys: %+v", version, found)
			}
			m := metadata(c, 12, false)
			for _, f := range found {
				const notAvailable = 15
				if f.ErrorCode == notAvailable {
					continue
				}
				if b := m.Brokers[0]; f.ErrorCode != 0 || f.NodeID != b.NodeID || f.Host != b.Host || f.Port != b.Port || f.NodeID != 7 {
					t.Errorf("FindCoordinator v%d: %+v, Metadata has %+v", version, f, b)
				}
			}
		}
	}
}

// B20
func TestLookingForCoordinatorsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	look := func(from, to int) {
		t.Helper()
		const inFlight = 50
		ids := make([]int32, to-from)
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.SetVersion(3)
		for i := 0; i < len(ids)+inFlight; i++ {
			if i < len(ids) {
				var err error
				request.CoordinatorType, request.CoordinatorKey = int8(i%2), "key-"+strconv.Itoa(from+i)
				if ids[i], err = c.Send(request); err != nil {
					t.Fatal(err)
				}
			}
			if i < inFlight {
				continue
			}
			frame, err := c.Receive(raw.Limit)
			if err != nil {
				t.Fatal(err)
			}
			r, err := raw.Decode(request, ids[i-inFlight], frame)
			if err != nil {
				t.Fatal(err)
			}
			if code := r.(*kmsg.FindCoordinatorResponse).ErrorCode; code != 0 {
				t.Fatalf("error %d", code)
			}
		}
	}
	look(0, 1000) // whatever is made once is made
	heap, disk := heapOf(n), diskOf(t, n)
	look(1000, 51_000)
	if grown := heapOf(n) - heap; grown > 1<<20 {
		t.Errorf("the heap has grown by %.0f bytes", grown)
	}
	if grown := diskOf(t, n) - disk; grown > 1<<20 {
		t.Errorf("the data folder has grown by %d bytes", grown)
	}
}

// heapOf returns the bytes of live objects.
func heapOf(n *node.Node) float64 {
	n.Get("/debug/pprof/heap?gc=1") // collects garbage first
	return n.Metric("go_memstats_heap_alloc_bytes")
}

// diskOf returns the size of the files in the data folder.
func diskOf(t testing.TB, n *node.Node) (size int64) {
	t.Helper()
	err := filepath.WalkDir(n.Dir(), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return nil // files come and go
	})
	if err != nil {
		t.Fatal(err)
	}
	return size
}

func TestMetadataTellsAllOrNothingOrWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	c := raw.Dial(t, n.Addr())
	a, b := makeTopic(t, c, "a", 2), makeTopic(t, c, "b", 1)
	for version := range int16(14) {
		if version > 0 {
			if r := metadata(c, version, false); len(r.Topics) != 0 || len(r.Brokers) != 1 {
				t.Errorf("Metadata v%d of no topics: %+v", version, r)
			}
		}
		all := kmsg.NewPtrMetadataRequest()
		if version == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		r := raw.Ask[*kmsg.MetadataResponse](c, version, all)
		if len(r.Topics) != 2 || len(r.Topics[0].Partitions)+len(r.Topics[1].Partitions) != 3 {
			t.Errorf("Metadata v%d of all topics: %+v", version, r)
		}
		if version >= 1 && r.ControllerID != 0 || version >= 2 && (r.ClusterID == nil || len(*r.ClusterID) != 22) {
			t.Errorf("Metadata v%d: controller %d, cluster %v", version, r.ControllerID, r.ClusterID)
		}
	}
	byID := kmsg.NewPtrMetadataRequest()
	for _, id := range [][16]byte{b.id, {1, 2, 3}, a.id} {
		in := kmsg.NewMetadataRequestTopic()
		in.TopicID = id
		byID.Topics = append(byID.Topics, in)
	}
	r := raw.Ask[*kmsg.MetadataResponse](c, 12, byID)
	if len(r.Topics) != 3 || *r.Topics[0].Topic != "b" || r.Topics[1].ErrorCode != unknownTopicID || r.Topics[1].Topic != nil || *r.Topics[2].Topic != "a" {
		t.Errorf("Metadata by id: %+v", r.Topics)
	}
	if got := kcat(t, n, "", "-L"); !strings.Contains(got, `topic "a" with 2 partitions`) {
		t.Errorf("kcat -L printed %q", got)
	}
}

// M-10: clients are told the address of the listener that they came in on, as
// advertised.
func TestEachListenerAdvertisesItsOwnAddress(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{
		Listen: "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
		Set: []string{
			"listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
			"advertised.listeners=INSIDE://inside.example:1234,OUTSIDE://localhost:4321", "broker.rack=r1",
		},
	})
	bound := func(listener string) string {
		return n.WaitLine(0, func(l node.Line) bool { return l.Message == "listening" && l.Text("listener") == listener }).Text("address")
	}
	inside, outside := bound("INSIDE"), bound("OUTSIDE")
	for address, want := range map[string]struct {
		host string
		port int
	}{inside: {"inside.example", 1234}, outside: {"localhost", 4321}} {
		c := raw.Dial(t, address)
		b := metadata(c, 12, false).Brokers[0]
		if b.Host != want.host || b.Port != int32(want.port) || b.Rack == nil || *b.Rack != "r1" {
			t.Errorf("Metadata at %s: %+v, want %v", address, b, want)
		}
		d := raw.Ask[*kmsg.DescribeClusterResponse](c, 1, describeCluster()).Brokers[0]
		request := kmsg.NewPtrFindCoordinatorRequest()
		f := raw.Ask[*kmsg.FindCoordinatorResponse](c, 3, request)
		if d.Host != want.host || d.Port != int32(want.port) || f.Host != want.host || f.Port != int32(want.port) {
			t.Errorf("DescribeCluster at %s: %+v, FindCoordinator %+v, want %v", address, d, f, want)
		}
	}
}

func describeCluster() *kmsg.DescribeClusterRequest {
	request := kmsg.NewPtrDescribeClusterRequest()
	request.EndpointType = 1
	return request
}

// saramaProducer returns a sarama producer that answers to each message.
func saramaProducer(t testing.TB, n *node.Node, change ...func(*sarama.Config)) sarama.SyncProducer {
	t.Helper()
	producer, err := sarama.NewSyncProducerFromClient(newSarama(t, n, sarama.MaxVersion, change...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, producer) })
	return producer
}

// B11
func TestSaramaWorksAtEveryVersionThatItIsSetTo(t *testing.T) {
	t.Parallel()
	n := node.Start(t, node.Options{})
	for i, version := range []sarama.KafkaVersion{sarama.V1_0_0_0, sarama.V2_1_0_0, sarama.V2_8_0_0, sarama.V3_6_0_0, sarama.V4_0_0_0, sarama.MaxVersion} {
		t.Run(version.String(), func(t *testing.T) {
			cl := newSarama(t, n, version)
			admin, err := sarama.NewClusterAdminFromClient(cl)
			if err != nil {
				t.Fatal(err)
			}
			topic := fmt.Sprint("sarama-", i)
			if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1}, false); err != nil {
				t.Fatal(err)
			}
			described, err := admin.DescribeTopics([]string{topic})
			if err != nil || len(described) != 1 || described[0].Err != sarama.ErrNoError || len(described[0].Partitions) != 2 {
				t.Errorf("describe topic: %+v, %v", described, err)
			}
			if err := cl.RefreshMetadata(); err != nil {
				t.Error(err)
			}
			if topics, err := cl.Topics(); err != nil || len(topics) == 0 {
				t.Errorf("topics: %v, %v", topics, err)
			}
			if _, _, err := admin.DescribeCluster(); err != nil {
				t.Errorf("describe cluster: %v", err)
			}
			producer, err := sarama.NewSyncProducerFromClient(cl)
			if err != nil {
				t.Fatal(err)
			}
			for i := range int64(5) {
				_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: 1, Value: sarama.StringEncoder("x"), Timestamp: time.Now()})
				if err != nil || offset != i {
					t.Errorf("message %d has offset %d, %v", i, offset, err)
				}
			}
			consumer, err := sarama.NewConsumerFromClient(cl)
			if err != nil {
				t.Fatal(err)
			}
			from, err := consumer.ConsumePartition(topic, 1, sarama.OffsetOldest)
			if err != nil {
				t.Fatal(err)
			}
			ctx := deadline(t)
			for i := range int64(5) {
				select {
				case m := <-from.Messages():
					if m.Offset != i || string(m.Value) != "x" {
						t.Errorf("message %d: %+v", i, m)
					}
				case err := <-from.Errors():
					t.Fatal(err)
				case <-ctx.Done():
					t.Fatal("no message came")
				}
			}
			closeIt(t, from)
			if err := admin.DeleteTopic(topic); err != nil {
				t.Error(err)
			}
			closeIt(t, consumer)
			closeIt(t, producer)
		})
	}
}
