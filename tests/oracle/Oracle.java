import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import kafka.tools.StorageTool;

/**
 * Runs one Apache Kafka node, broker and controller in one, until standard input ends or a signal
 * comes.
 *
 * <p>Arguments are the parent folder for the node's data, then any number of name=value broker
 * settings that override the ones below. Standard output gets exactly one line, "ready HOST:PORT",
 * once the broker is registered, unfenced and accepts requests: KafkaRaftServer.startup returns
 * only then. The data folder is removed at the end.
 *
 * <p>Exit codes: 0 stopped as asked, 2 a port that was free a moment ago is taken (try again), 1
 * anything else.
 */
public final class Oracle {
    private Oracle() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        // Kafka's classes print to standard output now and then; the one line there is ours.
        System.setOut(System.err);

        Path folder = Files.createTempDirectory(Path.of(args[0]), "kafka-");
        CountDownLatch stop = new CountDownLatch(1);
        CountDownLatch stopped = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stop.countDown();
            try {
                stopped.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));

        int code = 1;
        try {
            code = serve(args, folder, out, stop);
        } catch (Throwable e) {
            e.printStackTrace();
            code = portTaken(e) ? 2 : 1;
        } finally {
            remove(folder);
            stopped.countDown();
        }
        // halt, because a failed start leaves threads of Kafka's behind that would keep exit waiting.
        System.err.flush();
        Runtime.getRuntime().halt(code);
    }

    private static int serve(String[] args, Path folder, PrintStream out, CountDownLatch stop)
            throws Exception {
        int brokerPort = freePort();
        int controllerPort = freePort();
        Properties p = new Properties();
        p.setProperty("process.roles", "broker,controller");
        p.setProperty("node.id", "1");
        p.setProperty("controller.quorum.voters", "1@127.0.0.1:" + controllerPort);
        p.setProperty("listeners",
            "PLAINTEXT://127.0.0.1:" + brokerPort + ",CONTROLLER://127.0.0.1:" + controllerPort);
        p.setProperty("advertised.listeners", "PLAINTEXT://127.0.0.1:" + brokerPort);
        p.setProperty("controller.listener.names", "CONTROLLER");
        p.setProperty("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT");
        p.setProperty("log.dirs", folder.resolve("data").toString());
        // One node cannot hold the three replicas that these ask for by default.
        p.setProperty("offsets.topic.replication.factor", "1");
        p.setProperty("transaction.state.log.replication.factor", "1");
        p.setProperty("transaction.state.log.min.isr", "1");
        p.setProperty("share.coordinator.state.topic.replication.factor", "1");
        p.setProperty("share.coordinator.state.topic.min.isr", "1");
        for (int i = 1; i < args.length; i++) {
            int eq = args[i].indexOf('=');
            if (eq < 1) {
                throw new IllegalArgumentException("want name=value, got: " + args[i]);
            }
            p.setProperty(args[i].substring(0, eq), args[i].substring(eq + 1));
        }

        Path file = folder.resolve("server.properties");
        try (OutputStream o = Files.newOutputStream(file)) {
            p.store(o, null);
        }
        int formatted = StorageTool.execute(
            new String[] {"format", "--cluster-id", Uuid.randomUuid().toString(), "--config", file.toString()},
            System.err);
        if (formatted != 0) {
            throw new IllegalStateException("formatting the data folder ended with code " + formatted);
        }

        KafkaRaftServer server = new KafkaRaftServer(KafkaConfig.fromProps(p), Time.SYSTEM);
        server.startup();
        out.println("ready 127.0.0.1:" + brokerPort);
        out.flush();

        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Only the end of the input means something.
                }
            } catch (IOException e) {
                // A broken input is an ended one.
            }
            stop.countDown();
        }, "stdin");
        input.setDaemon(true);
        input.start();

        stop.await();
        server.shutdown();
        server.awaitShutdown();
        return 0;
    }

    private static int freePort() throws IOException {
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            return s.getLocalPort();
        }
    }

    private static boolean portTaken(Throwable e) {
        for (Throwable c = e; c != null; c = c.getCause()) {
            if (c instanceof java.net.BindException) {
                return true;
            }
        }
        return false;
    }

    private static void remove(Path folder) throws IOException {
        Files.walkFileTree(folder, new SimpleFileVisitor<>() {
            @Override
            public FileVisitResult visitFile(Path f, BasicFileAttributes a) throws IOException {
                Files.deleteIfExists(f);
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult visitFileFailed(Path f, IOException e) {
                return FileVisitResult.CONTINUE;
            }

            @Override
            public FileVisitResult postVisitDirectory(Path d, IOException e) throws IOException {
                Files.deleteIfExists(d);
                return FileVisitResult.CONTINUE;
            }
        });
    }
}
