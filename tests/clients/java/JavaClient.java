import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Drives Kafka's own Java client. */
public final class JavaClient {
    private static final Duration LIMIT = Duration.ofSeconds(25);

    private final String address;
    private final Admin admin;

    private JavaClient(String address) {
        this.address = address;
        this.admin = Admin.create(properties());
    }

    public static void main(String[] args) throws Exception {
        JavaClient c = new JavaClient(args[0]);
        Map<String, Driver.Handler> h = new HashMap<>();
        h.put("cluster", c::cluster);
        h.put("topics", (r, a) -> {
            ArrayNode names = a.putArray("names");
            c.admin.listTopics().names().get().forEach(names::add);
        });
        h.put("create", c::create);
        h.put("delete", (r, a) -> c.admin.deleteTopics(List.of(topic(r))).all().get());
        h.put("describe", c::describe);
        h.put("add-partitions", (r, a) -> c.admin.createPartitions(
            Map.of(topic(r), NewPartitions.increaseTo(r.get("partitions").asInt()))).all().get());
        h.put("configs", c::configs);
        h.put("alter", c::alter);
        h.put("produce", c::produce);
        h.put("consume", c::consume);
        h.put("offsets", c::offsets);
        h.put("delete-records", (r, a) -> a.put("offset", c.admin.deleteRecords(Map.of(partition(r),
            RecordsToDelete.beforeOffset(r.get("offset").asLong()))).lowWatermarks().get(partition(r)).get().lowWatermark()));
        h.put("log-dirs", c::logDirs);
        h.put("group-consume", c::groupConsume);
        h.put("transaction", c::transaction);
        h.put("copy", c::copy);
        h.put("groups", (r, a) -> {
            ArrayNode names = a.putArray("names");
            c.admin.listGroups().all().get().forEach(g -> names.add(g.groupId()));
        });
        h.put("delete-group", (r, a) -> c.admin.deleteConsumerGroups(List.of(r.get("group").asText())).all().get());
        Driver.serve(h);
    }

    private Properties properties() {
        Properties p = new Properties();
        p.put("bootstrap.servers", address);
        p.put("default.api.timeout.ms", "25000");
        p.put("request.timeout.ms", "20000");
        return p;
    }

    private static String topic(JsonNode r) {
        return r.get("topic").asText();
    }

    private static TopicPartition partition(JsonNode r) {
        return new TopicPartition(topic(r), r.get("partition").asInt());
    }

    private void cluster(JsonNode r, ObjectNode a) throws Exception {
        DescribeClusterResult d = admin.describeCluster();
        a.put("brokers", d.nodes().get().size());
        a.put("cluster", d.clusterId().get() != null);
        a.put("controller", d.controller().get() != null);
    }

    private void create(JsonNode r, ObjectNode a) throws Exception {
        Map<String, String> configs = new HashMap<>();
        if (r.has("configs")) {
            r.get("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
        }
        admin.createTopics(List.of(new NewTopic(topic(r), r.get("partitions").asInt(), (short) 1).configs(configs))).all().get();
    }

    private void describe(JsonNode r, ObjectNode a) throws Exception {
        TopicDescription d = admin.describeTopics(List.of(topic(r))).allTopicNames().get().get(topic(r));
        a.put("partitions", d.partitions().size());
        a.put("replicas", d.partitions().get(0).replicas().size());
        a.put("internal", d.isInternal());
    }

    private static ConfigResource resource(JsonNode r) {
        boolean isTopic = r.get("kind").asText().equals("topic");
        return new ConfigResource(isTopic ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER, r.get("name").asText());
    }

    private void configs(JsonNode r, ObjectNode a) throws Exception {
        List<String> keys = new ArrayList<>();
        r.get("keys").forEach(k -> keys.add(k.asText()));
        ObjectNode out = a.putObject("configs");
        for (ConfigEntry e : admin.describeConfigs(List.of(resource(r))).all().get().get(resource(r)).entries()) {
            if (keys.contains(e.name())) {
                out.put(e.name(), e.value() + " (" + e.source() + ")");
            }
        }
    }

    private void alter(JsonNode r, ObjectNode a) throws Exception {
        if (r.get("mode").asText().equals("legacy")) {
            throw new UnsupportedOperationException("Kafka 4's admin client has only incremental changes");
        }
        Collection<AlterConfigOp> ops = new ArrayList<>();
        for (JsonNode c : r.get("changes")) {
            ConfigEntry e = new ConfigEntry(c.get("key").asText(), c.get("value").isNull() ? null : c.get("value").asText());
            ops.add(new AlterConfigOp(e, AlterConfigOp.OpType.valueOf(c.get("op").asText().toUpperCase(java.util.Locale.ROOT))));
        }
        admin.incrementalAlterConfigs(Map.of(resource(r), ops)).all().get();
    }

    private void produce(JsonNode r, ObjectNode a) throws Exception {
        Properties p = properties();
        p.put("acks", r.get("acks").asText());
        p.put("enable.idempotence", r.path("idempotent").asBoolean() ? "true" : "false");
        p.put("compression.type", r.get("codec").asText());
        p.put("linger.ms", "20");
        p.put("delivery.timeout.ms", "25000");
        p.put("max.block.ms", "20000");
        if (r.has("max_bytes")) {
            p.put("max.request.size", r.get("max_bytes").asText());
        }
        ArrayNode offsets = a.putArray("offsets");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode x : r.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode h : x.path("headers")) {
                    headers.add(new RecordHeader(h.get("name").asText(), Driver.bytes(h.get("value"))));
                }
                long ts = x.get("timestamp").asLong();
                sent.add(producer.send(new ProducerRecord<>(topic(r), r.get("partition").asInt(), ts == 0 ? null : ts,
                    Driver.bytes(x.get("key")), Driver.bytes(x.get("value")), headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> f : sent) {
                offsets.add(f.get().offset());
            }
        }
    }

    private void consume(JsonNode r, ObjectNode a) throws Exception {
        Properties p = properties();
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        if (r.has("isolation")) {
            p.put("isolation.level", r.get("isolation").asText());
        }
        if (r.has("max_bytes")) {
            p.put("fetch.max.bytes", r.get("max_bytes").asText());
            p.put("max.partition.fetch.bytes", r.get("partition_max_bytes").asText());
        }
        int count = r.get("count").asInt();
        ArrayNode records = a.putArray("records");
        long deadline = System.nanoTime() + LIMIT.toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition(r)));
            consumer.seek(partition(r), r.get("offset").asLong());
            while (records.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + records.size() + " of " + count + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> x : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() == count) {
                        break;
                    }
                    ObjectNode o = records.addObject();
                    o.put("offset", x.offset()).put("timestamp", x.timestamp()).put("key", x.key()).put("value", x.value());
                    ArrayNode headers = o.putArray("headers");
                    for (Header h : x.headers()) {
                        headers.addObject().put("name", h.key()).put("value", h.value());
                    }
                }
            }
        }
    }

    /** Those of a scenario's transactions, by the names it gave them. */
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    private KafkaProducer<byte[], byte[]> transactional(String id) {
        Properties p = properties();
        p.put("transactional.id", id);
        p.put("linger.ms", "20");
        p.put("delivery.timeout.ms", "25000");
        p.put("max.block.ms", "20000");
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void transaction(JsonNode r, ObjectNode a) throws Exception {
        String name = r.get("name").asText();
        KafkaProducer<byte[], byte[]> p = producers.get(name);
        switch (r.get("step").asText()) {
            case "begin" -> {
                if (p == null) {
                    p = transactional(r.get("id").asText());
                    producers.put(name, p);
                    p.initTransactions();
                }
                p.beginTransaction();
            }
            case "send" -> {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (JsonNode x : r.get("records")) {
                    sent.add(p.send(new ProducerRecord<>(topic(r), r.get("partition").asInt(), Driver.bytes(x.get("key")), Driver.bytes(x.get("value")))));
                }
                p.flush();
                for (Future<RecordMetadata> f : sent) {
                    f.get();
                }
            }
            case "commit" -> p.commitTransaction();
            case "abort" -> p.abortTransaction();
            default -> producers.remove(name).close();
        }
    }

    private void copy(JsonNode r, ObjectNode a) throws Exception {
        Properties p = properties();
        p.put("group.id", r.get("group").asText());
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        p.put("isolation.level", "read_committed");
        p.put("max.poll.records", "1");
        int count = r.get("count").asInt();
        ArrayNode records = a.putArray("records");
        long deadline = System.nanoTime() + LIMIT.toNanos();
        Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
        try (KafkaProducer<byte[], byte[]> producer = transactional(r.get("id").asText());
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            consumer.subscribe(List.of(topic(r)));
            while (records.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + records.size() + " of " + count + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> x : consumer.poll(Duration.ofMillis(200))) {
                    records.addObject().put("offset", x.offset());
                    producer.send(new ProducerRecord<>(r.get("name").asText(), 0, x.key(), x.value()));
                    next.put(new TopicPartition(x.topic(), x.partition()), new OffsetAndMetadata(x.offset() + 1));
                }
            }
            producer.sendOffsetsToTransaction(next, consumer.groupMetadata());
            if (r.get("step").asText().equals("commit")) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
    }

    private void groupConsume(JsonNode r, ObjectNode a) throws Exception {
        Properties p = properties();
        p.put("group.id", r.get("group").asText());
        p.put("auto.offset.reset", "earliest");
        p.put("enable.auto.commit", "false");
        int count = r.get("count").asInt();
        ArrayNode records = a.putArray("records");
        long deadline = System.nanoTime() + LIMIT.toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic(r)));
            while (records.size() < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("only " + records.size() + " of " + count + " records came");
                }
                for (ConsumerRecord<byte[], byte[]> x : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() < count) {
                        records.addObject().put("offset", x.offset());
                        consumer.commitSync(Map.of(new TopicPartition(x.topic(), x.partition()), new OffsetAndMetadata(x.offset() + 1)));
                    }
                }
            }
        }
    }

    private void offsets(JsonNode r, ObjectNode a) throws Exception {
        String at = r.get("at").asText();
        OffsetSpec spec = switch (at) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max-timestamp" -> OffsetSpec.maxTimestamp();
            default -> OffsetSpec.forTimestamp(Long.parseLong(at));
        };
        ListOffsetsResult.ListOffsetsResultInfo info =
            admin.listOffsets(Map.of(partition(r), spec)).partitionResult(partition(r)).get();
        a.put("offset", info.offset());
        a.put("timestamp", info.timestamp());
    }

    private void logDirs(JsonNode r, ObjectNode a) throws Exception {
        int node = admin.describeCluster().nodes().get().iterator().next().id();
        long size = 0;
        for (LogDirDescription d : admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node).values()) {
            for (Map.Entry<TopicPartition, org.apache.kafka.clients.admin.ReplicaInfo> e : d.replicaInfos().entrySet()) {
                if (e.getKey().topic().equals(topic(r))) {
                    size += e.getValue().size();
                }
            }
        }
        a.put("size", size);
    }
}
