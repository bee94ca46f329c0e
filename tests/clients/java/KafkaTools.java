import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import net.sourceforge.argparse4j.inf.ArgumentParser;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.server.util.ThroughputThrottler;
import org.apache.kafka.tools.VerifiableProducer;

/**
 * Drives Kafka's command line tools, by their main methods in one JVM, since a JVM for each would
 * take longer than what it does.
 */
public final class KafkaTools {
    private static final String TOOLS = "org.apache.kafka.tools.";
    private static final String NULL = "<null>";

    private final String address;
    /** What the running tool wants done at its end; most of them close their client there. */
    private static final List<Runnable> HOOKS = new ArrayList<>();
    /** The code of the running tool's first exit: some catch what is thrown at them and exit again. */
    private static Integer firstExit;

    private KafkaTools(String address) {
        this.address = address;
    }

    /** Thrown in the place of an exit, to come back from a tool. */
    private static final class Exited extends RuntimeException {
        private static final long serialVersionUID = 1;

        Exited(int code) {
            super("exit " + code, null, false, false);
        }
    }

    public static void main(String[] args) throws Exception {
        Exit.Procedure leave = (code, message) -> {
            if (firstExit == null) {
                firstExit = code;
            }
            throw new Exited(code);
        };
        Exit.setExitProcedure(leave);
        Exit.setHaltProcedure(leave);
        Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
        KafkaTools t = new KafkaTools(args[0]);
        Map<String, Driver.Handler> h = new HashMap<>();
        h.put("cluster", t::cluster);
        h.put("topics", (r, a) -> {
            ArrayNode names = a.putArray("names");
            t.tool("TopicCommand", "", "--list").lines().forEach(names::add);
        });
        h.put("create", t::create);
        h.put("delete", (r, a) -> t.tool("TopicCommand", "", "--delete", "--topic", topic(r)));
        h.put("describe", t::describe);
        h.put("add-partitions", (r, a) -> t.tool("TopicCommand", "", "--alter", "--topic", topic(r),
            "--partitions", r.get("partitions").asText()));
        h.put("configs", t::configs);
        h.put("alter", t::alter);
        h.put("produce", t::produce);
        h.put("consume", t::consume);
        h.put("offsets", t::offsets);
        h.put("delete-records", t::deleteRecords);
        h.put("log-dirs", t::logDirs);
        h.put("group-consume", t::groupConsume);
        h.put("groups", (r, a) -> {
            ArrayNode names = a.putArray("names");
            t.tool("consumer.group.ConsumerGroupCommand", "", "--list").lines().forEach(names::add);
        });
        h.put("delete-group", t::deleteGroup);
        h.put("tool", t::other);
        Driver.serve(h);
    }

    private static String topic(JsonNode r) {
        return r.get("topic").asText();
    }

    /** Runs a tool with the broker's address and returns what it printed. */
    private String tool(String name, String input, String... args) throws Exception {
        List<String> all = new ArrayList<>(List.of("--bootstrap-server", address));
        all.addAll(List.of(args));
        return run(name, input, all);
    }

    /** Runs a tool; one that ends with another code than 0 has failed. */
    private static String run(String name, String input, List<String> args) throws Exception {
        PrintStream out = System.out;
        InputStream in = System.in;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        firstExit = null;
        try {
            Class.forName(TOOLS + name).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                throw (Exception) e.getCause();
            }
        } finally {
            HOOKS.forEach(Runnable::run);
            HOOKS.clear();
            System.out.flush();
            System.setOut(out);
            System.setIn(in);
        }
        String text = printed.toString(StandardCharsets.UTF_8);
        if (firstExit != null && firstExit != 0) {
            System.err.println(text);
            throw new IllegalStateException(name + " ended with code " + firstExit);
        }
        return text;
    }

    private void cluster(JsonNode r, ObjectNode a) throws Exception {
        a.put("brokers", tool("BrokerApiVersionsCommand", "").lines().filter(l -> l.contains("(id: ")).count());
        String id = run("ClusterTool", "", List.of("cluster-id", "--bootstrap-server", address));
        a.put("cluster", id.contains("Cluster ID: ") && !id.contains("null"));
    }

    private void create(JsonNode r, ObjectNode a) throws Exception {
        List<String> args = new ArrayList<>(List.of("--create", "--topic", topic(r),
            "--partitions", r.get("partitions").asText(), "--replication-factor", "1"));
        if (r.has("configs")) {
            r.get("configs").fields().forEachRemaining(e -> {
                args.add("--config");
                args.add(e.getKey() + "=" + e.getValue().asText());
            });
        }
        tool("TopicCommand", "", args.toArray(new String[0]));
    }

    private void describe(JsonNode r, ObjectNode a) throws Exception {
        String text = tool("TopicCommand", "", "--describe", "--topic", topic(r));
        Matcher m = Pattern.compile("PartitionCount: (\\d+)\\s+ReplicationFactor: (\\d+)").matcher(text);
        if (!m.find()) {
            throw new IllegalStateException("TopicCommand describes nothing");
        }
        a.put("partitions", Integer.parseInt(m.group(1)));
        a.put("replicas", Integer.parseInt(m.group(2)));
    }

    private static String[] entity(JsonNode r) {
        return new String[] {"--entity-type", r.get("kind").asText() + "s", "--entity-name", r.get("name").asText()};
    }

    private void configs(JsonNode r, ObjectNode a) throws Exception {
        List<String> args = new ArrayList<>(List.of(entity(r)));
        args.addAll(List.of("--describe", "--all"));
        List<String> keys = new ArrayList<>();
        r.get("keys").forEach(k -> keys.add(k.asText()));
        ObjectNode out = a.putObject("configs");
        // The first synonym is the one in force; the others are the broker's affair.
        Pattern p = Pattern.compile("^\\s+([\\w.]+)=(.*) sensitive=\\w+ synonyms=\\{(\\w*).*\\}$");
        tool("ConfigCommand", "", args.toArray(new String[0])).lines().forEach(l -> {
            Matcher m = p.matcher(l);
            if (m.matches() && keys.contains(m.group(1))) {
                out.put(m.group(1), m.group(2) + " (" + m.group(3) + ")");
            }
        });
    }

    private void alter(JsonNode r, ObjectNode a) throws Exception {
        if (r.get("mode").asText().equals("legacy")) {
            throw new UnsupportedOperationException();
        }
        List<String> args = new ArrayList<>(List.of(entity(r)));
        args.add("--alter");
        for (JsonNode c : r.get("changes")) {
            if (c.get("op").asText().equals("delete")) {
                args.addAll(List.of("--delete-config", c.get("key").asText()));
            } else {
                args.addAll(List.of("--add-config", c.get("key").asText() + "=" + c.get("value").asText()));
            }
        }
        tool("ConfigCommand", "", args.toArray(new String[0]));
    }

    private static String field(byte[] b) {
        return b == null ? NULL : new String(b, StandardCharsets.UTF_8);
    }

    private void produce(JsonNode r, ObjectNode a) throws Exception {
        if (r.get("partition").asInt() != 0) {
            throw new UnsupportedOperationException("the tool chooses the partition");
        }
        StringBuilder input = new StringBuilder();
        for (JsonNode x : r.get("records")) {
            if (x.get("timestamp").asLong() != 0) {
                throw new UnsupportedOperationException("the tool sets no timestamps");
            }
            List<String> headers = new ArrayList<>();
            for (JsonNode h : x.path("headers")) {
                headers.add(h.get("name").asText() + ":" + field(Driver.bytes(h.get("value"))));
            }
            input.append(headers.isEmpty() ? NULL : String.join(",", headers)).append('\t')
                .append(field(Driver.bytes(x.get("key")))).append('\t')
                .append(field(Driver.bytes(x.get("value")))).append('\n');
        }
        List<String> args = new ArrayList<>(List.of("--topic", topic(r),
            "--compression-codec", r.get("codec").asText(), "--request-required-acks", r.get("acks").asText(),
            "--command-property", "enable.idempotence=" + r.path("idempotent").asBoolean(),
            "--command-property", "linger.ms=20",
            "--reader-property", "parse.key=true", "--reader-property", "parse.headers=true",
            "--reader-property", "null.marker=" + NULL));
        if (r.has("max_bytes")) {
            args.addAll(List.of("--command-property", "max.request.size=" + r.get("max_bytes").asText()));
        }
        tool("ConsoleProducer", input.toString(), args.toArray(new String[0]));
    }

    private void consume(JsonNode r, ObjectNode a) throws Exception {
        resetCount();
        List<String> args = new ArrayList<>(List.of("--topic", topic(r), "--partition", r.get("partition").asText(),
            "--offset", r.get("offset").asText(), "--max-messages", r.get("count").asText(), "--timeout-ms", "20000"));
        for (String p : List.of("print.timestamp=true", "print.offset=true", "print.headers=true", "print.key=true",
            "null.literal=" + NULL)) {
            args.addAll(List.of("--formatter-property", p));
        }
        if (r.has("isolation")) {
            args.addAll(List.of("--isolation-level", r.get("isolation").asText()));
        }
        if (r.has("max_bytes")) {
            args.addAll(List.of("--command-property", "fetch.max.bytes=" + r.get("max_bytes").asText(),
                "--command-property", "max.partition.fetch.bytes=" + r.get("partition_max_bytes").asText()));
        }
        ArrayNode records = a.putArray("records");
        tool("consumer.ConsoleConsumer", "", args.toArray(new String[0])).lines().forEach(l -> {
            String[] f = l.split("\t", -1);
            if (f.length < 5) {
                return;
            }
            ObjectNode o = records.addObject();
            o.put("timestamp", Long.parseLong(f[0].substring(f[0].indexOf(':') + 1)));
            o.put("offset", Long.parseLong(f[1].substring(f[1].indexOf(':') + 1)));
            ArrayNode headers = o.putArray("headers");
            if (!f[2].equals("NO_HEADERS")) {
                for (String h : f[2].split(",", -1)) {
                    int colon = h.indexOf(':');
                    headers.addObject().put("name", h.substring(0, colon)).put("value", bytes(h.substring(colon + 1)));
                }
            }
            o.put("key", bytes(f[3])).put("value", bytes(f[4]));
        });
        if (records.size() < r.get("count").asInt()) {
            throw new IllegalStateException("only " + records.size() + " of " + r.get("count").asText() + " records came");
        }
    }

    private void groupConsume(JsonNode r, ObjectNode a) throws Exception {
        ArrayNode records = a.putArray("records");
        resetCount();
        tool("consumer.ConsoleConsumer", "", "--topic", topic(r), "--group", r.get("group").asText(),
            "--max-messages", r.get("count").asText(), "--timeout-ms", "20000",
            "--command-property", "auto.offset.reset=earliest", "--formatter-property", "print.offset=true",
            "--formatter-property", "print.value=false").lines().forEach(l -> {
                if (l.startsWith("Offset:")) {
                    records.addObject().put("offset", Long.parseLong(l.substring("Offset:".length()).trim()));
                }
            });
    }

    private void deleteGroup(JsonNode r, ObjectNode a) throws Exception {
        String text = tool("consumer.group.ConsumerGroupCommand", "", "--delete", "--group", r.get("group").asText());
        Matcher e = Pattern.compile("errors\\.(\\w+)").matcher(text);
        if (e.find()) {
            throw new IllegalStateException(e.group(1));
        }
    }

    /** The console consumer counts in a static field and never starts anew. */
    private static void resetCount() throws Exception {
        Field count = Class.forName(TOOLS + "consumer.ConsoleConsumer").getDeclaredField("messageCount");
        count.setAccessible(true);
        count.setInt(null, 0);
    }

    private static byte[] bytes(String s) {
        return s.equals(NULL) ? null : s.getBytes(StandardCharsets.UTF_8);
    }

    private void offsets(JsonNode r, ObjectNode a) throws Exception {
        String at = r.get("at").asText();
        String partition = r.get("partition").asText();
        String text = tool("GetOffsetShell", "", "--topic-partitions", topic(r) + ":" + partition, "--time", at);
        Matcher m = Pattern.compile(":" + partition + ":(\\d+)\\s*$", Pattern.MULTILINE).matcher(text);
        a.put("offset", m.find() ? Long.parseLong(m.group(1)) : -1);
    }

    private void deleteRecords(JsonNode r, ObjectNode a) throws Exception {
        Path file = Files.createTempFile("delete", ".json");
        try {
            ObjectNode o = Driver.JSON.createObjectNode();
            o.put("version", 1);
            o.putArray("partitions").addObject().put("topic", topic(r)).put("partition", r.get("partition").asInt())
                .put("offset", r.get("offset").asLong());
            Files.writeString(file, o.toString());
            String text = tool("DeleteRecordsCommand", "", "--offset-json-file", file.toString());
            Matcher m = Pattern.compile("low_watermark: (\\d+)").matcher(text);
            if (!m.find()) {
                Matcher e = Pattern.compile("errors\\.(\\w+)").matcher(text);
                throw new IllegalStateException(e.find() ? e.group(1) : "no low watermark");
            }
            a.put("offset", Long.parseLong(m.group(1)));
        } finally {
            Files.delete(file);
        }
    }

    private void logDirs(JsonNode r, ObjectNode a) throws Exception {
        String text = tool("LogDirsCommand", "", "--describe", "--topic-list", topic(r));
        long size = 0;
        Matcher m = Pattern.compile("\"size\":(\\d+)").matcher(text);
        while (m.find()) {
            size += Long.parseLong(m.group(1));
        }
        a.put("size", size);
    }

    private void other(JsonNode r, ObjectNode a) throws Exception {
        String count = r.get("count").asText();
        switch (r.get("name").asText()) {
            case "producer-perf" -> {
                List<String> args = new ArrayList<>(List.of("--topic", topic(r), "--num-records", count, "--record-size", "100"));
                r.path("args").forEach(x -> args.add(x.asText()));
                String text = tool("ProducerPerformance", "", args.toArray(new String[0]));
                Matcher m = Pattern.compile("(\\d+ records sent)").matcher(text);
                String last = "nothing told";
                while (m.find()) {
                    last = m.group(1);
                }
                a.put("text", last);
            }
            case "consumer-groups" -> {
                List<String> args = new ArrayList<>(List.of("--group", r.get("group").asText()));
                r.get("args").forEach(x -> args.add(x.asText()));
                a.put("text", tool("consumer.group.ConsumerGroupCommand", "", args.toArray(new String[0])));
            }
            case "transactions" -> {
                List<String> args = new ArrayList<>();
                r.get("args").forEach(x -> args.add(x.asText()));
                a.put("text", tool("TransactionsCommand", "", args.toArray(new String[0])));
            }
            case "verifiable-producer" -> a.put("text", verifiable(topic(r), count) + " acknowledged");
            default -> throw new UnsupportedOperationException();
        }
    }

    /**
     * Runs the verifiable producer by its parts, since its main method ends in a hook of the JVM, and
     * returns how many records it says were acknowledged.
     */
    private long verifiable(String topic, String count) throws Exception {
        Class<?> c = VerifiableProducer.class;
        Method parser = c.getDeclaredMethod("argParser");
        Method run = c.getDeclaredMethod("run", ThroughputThrottler.class);
        parser.setAccessible(true);
        run.setAccessible(true);
        PrintStream out = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            VerifiableProducer p = VerifiableProducer.createFromArgs((ArgumentParser) parser.invoke(null),
                new String[] {"--bootstrap-server", address, "--topic", topic, "--max-messages", count});
            run.invoke(p, new ThroughputThrottler(-1, System.currentTimeMillis()));
            p.close();
        } finally {
            System.setOut(out);
        }
        return printed.toString(StandardCharsets.UTF_8).lines().filter(l -> l.contains("producer_send_success")).count();
    }
}
