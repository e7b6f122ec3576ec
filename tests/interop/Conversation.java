import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.utils.Utils;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * How a referee is asked and answers, whichever Kafka it has.
 *
 * <p>With words on the command line it runs one command. Without, it serves: each line of standard input is a JSON
 * array of such words, each answer is JSON lines closed by {@code {"kind":"done"}}.
 */
abstract class Conversation {
    private static final int KEY_BYTES_SHOWN_MAX = 64;

    private final ObjectMapper json;
    private final PrintStream out;

    /** Takes standard output for the answers: Kafka's log lines must not mix with them. */
    Conversation(ObjectMapper json) {
        this.json = json;
        this.out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
    }

    /** Runs one command. */
    abstract void run(Arguments arguments) throws Exception;

    final void hold(String[] words) throws Exception {
        if (words.length == 0) {
            serve();
        } else {
            run(Arguments.parse(Arrays.asList(words)));
            out.flush();
        }
    }

    private void serve() throws IOException {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            print(answer(Arrays.asList(json.readValue(line, String[].class))));
            out.flush();
        }
    }

    private Done answer(List<String> request) {
        try {
            run(Arguments.parse(request));
            return new Done("done", null);
        } catch (Exception error) {
            error.printStackTrace();
            return new Done("done", error.toString());
        }
    }

    final void print(Object line) throws IOException {
        out.println(json.writeValueAsString(line));
    }

    interface DirCommand {
        void run(File dir, Arguments arguments) throws Exception;
    }

    static void forEachDir(Arguments arguments, DirCommand command) throws Exception {
        for (String dir : arguments.dirs()) {
            command.run(new File(dir).getAbsoluteFile(), arguments);
        }
    }

    static RecordLine recordLine(long offset, long timestamp, int sequence, ByteBuffer key, ByteBuffer value,
                                 Header[] headers) throws GeneralSecurityException {
        String[][] shown = Stream.of(headers)
            .map(header -> new String[] {header.key(), header.value() == null ? null : hex(header.value())})
            .toArray(String[][]::new);
        return new RecordLine("record", offset, timestamp, sequence, key == null ? null : shortened(Utils.toArray(key)),
            value == null ? null : hex(sha256().digest(Utils.toArray(value))),
            value == null ? -1 : value.remaining(), shown);
    }

    private static String shortened(byte[] key) throws GeneralSecurityException {
        return key.length <= KEY_BYTES_SHOWN_MAX ? hex(key) : "sha256:" + hex(sha256().digest(key));
    }

    static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }

    static MessageDigest sha256() throws GeneralSecurityException {
        return MessageDigest.getInstance("SHA-256");
    }

    // ---- what the answers are made of: one line each, named fields -------------------------------------------------

    record Done(String kind, String error) { }

    record Refused(String kind, String dir, String error) { }

    record Epoch(int epoch, long startOffset) { }

    record Producer(long producerId, int producerEpoch, int lastSequence, long lastOffset, int coordinatorEpoch,
                    long lastTimestamp, Long currentTxnFirstOffset) { }

    record Log(String kind, String dir, long logStartOffset, long logEndOffset, long highWatermark,
               long lastStableOffset, List<Epoch> leaderEpochs, List<Producer> producers) { }

    record Aborted(long producerId, long firstOffset, long lastOffset, long lastStableOffset) { }

    record Segment(String kind, long baseOffset, long sizeBytes, long largestTimestamp, List<Aborted> abortedTxns) { }

    record Batch(String kind, int position, int sizeBytes, int magic, long crc, String codec, long baseOffset,
                 long lastOffset, Integer count, int baseSequence, int lastSequence, long producerId, int producerEpoch,
                 int leaderEpoch, boolean transactional, boolean control, Long deleteHorizonMs, String timestampType,
                 long maxTimestamp) { }

    record RecordLine(String kind, long offset, long timestamp, int sequence, String key, String value, int valueBytes,
                      String[][] headers) { }

    record Digest(String kind, String dir, long records, String sha256) { }

    record Round(String kind, String dir, Long firstDirtyOffset, Long firstUncleanableOffset, Long endOffset,
                 double seconds, long bytesRead, long bytesWritten, long recordsRead, long recordsWritten,
                 long invalidRecords) { }

    record CleanedAll(String kind, double seconds, double cpuSeconds) { }

    record Expired(String kind, String dir, int segments, long logStartOffset) { }

    record LookedUp(String kind, String dir, String by, long target, Long offset, Long timestamp, Long segment,
                    Integer position, String error) { }

    record Generated(String kind, String dir, long records, long bytes, int segments, long nowMs) { }

    // ---- what is asked ---------------------------------------------------------------------------------------------

    /** A command line taken apart: the command, its directories, and options with or without a value. */
    record Arguments(String command, List<String> dirs, Map<String, List<String>> options) {
        private static final List<String> FLAGS =
            List.of("checkpoints", "keep-deleted", "batches-only", "unkeyed", "no-tombstones", "no-transactions", "expire",
                "in-order");

        static Arguments parse(List<String> words) {
            List<String> dirs = new ArrayList<>();
            Map<String, List<String>> options = new HashMap<>();
            for (int i = 1; i < words.size(); i++) {
                if (!words.get(i).startsWith("--")) {
                    dirs.add(words.get(i));
                    continue;
                }
                String name = words.get(i).substring(2);
                List<String> values = options.computeIfAbsent(name, unused -> new ArrayList<>());
                if (!FLAGS.contains(name)) {
                    values.add(words.get(++i));
                }
            }
            return new Arguments(words.get(0), dirs, options);
        }

        boolean has(String name) {
            return options.containsKey(name);
        }

        List<String> all(String name) {
            return options.getOrDefault(name, List.of());
        }

        /** Topic configuration: the defaults, and what {@code --config} says. */
        Map<String, String> settings(Map<String, String> defaults) {
            Map<String, String> settings = new HashMap<>(defaults);
            for (String setting : all("config")) {
                String[] keyAndValue = setting.split("=", 2);
                settings.put(keyAndValue[0], keyAndValue[1]);
            }
            return settings;
        }

        String text(String name, String otherwise) {
            return has(name) ? options.get(name).get(0) : otherwise;
        }

        long number(String name, long otherwise) {
            return has(name) ? Long.parseLong(options.get(name).get(0)) : otherwise;
        }
    }
}
