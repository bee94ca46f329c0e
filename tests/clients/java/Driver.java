import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.protocol.Errors;

/** The loop of a driver: a JSON request a line, a JSON answer a line. See tests/clients/README.md. */
final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();

    private Driver() {}

    /** One operation; it puts what it found into the answer. */
    interface Handler {
        void handle(JsonNode request, ObjectNode answer) throws Exception;
    }

    static void serve(Map<String, Handler> handlers) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
        // The tools print to standard output; only answers go there.
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            JsonNode request = JSON.readTree(line);
            Handler handler = handlers.get(request.get("op").asText());
            if (handler == null) {
                answer.put("unsupported", true);
            } else {
                try {
                    handler.handle(request, answer);
                } catch (Throwable e) {
                    failed(answer, e);
                }
            }
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        // halt, since a client's thread may wait for what never comes.
        Runtime.getRuntime().halt(0);
    }

    private static void failed(ObjectNode answer, Throwable e) {
        Throwable cause = e;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (cause instanceof UnsupportedOperationException) {
            answer.put("unsupported", true);
            return;
        }
        Errors error = Errors.forException(cause);
        if (cause instanceof ApiException && error != Errors.UNKNOWN_SERVER_ERROR) {
            answer.put("code", error.code());
        } else {
            String name = cause instanceof IllegalStateException ? "" : cause.getClass().getSimpleName() + ": ";
            answer.put("error", name + cause.getMessage());
        }
    }

    static byte[] bytes(JsonNode n) throws Exception {
        return n == null || n.isNull() ? null : n.binaryValue();
    }
}
