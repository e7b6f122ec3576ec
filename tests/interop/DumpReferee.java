import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.DumpLogSegments;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * Kafka's own kafka-dump-log, many files in one JVM.
 *
 * <p>Each line of standard input is a JSON array: a file for standard output, one for standard error, then the tool's
 * arguments. Each answer is one JSON object: what the tool threw, or nothing, whether that was because tool and classes
 * do not fit together, and the seconds that it took.
 */
public final class DumpReferee {
    public static void main(String[] none) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("exit " + status);
        });
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = json.readValue(line, String[].class);
            String error = "";
            boolean isMisfit = false;
            long start = System.nanoTime();
            try (PrintStream out = open(words[0]); PrintStream err = open(words[1])) {
                System.setOut(out);
                System.setErr(err);
                DumpLogSegments.main(Arrays.copyOfRange(words, 2, words.length));
            } catch (Throwable thrown) {
                error = thrown.toString();
                isMisfit = thrown instanceof LinkageError;
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            Map<String, Object> answer = Map.of("error", error, "misfit", isMisfit, "seconds", seconds);
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }

    /** Opens a stream as the JVM opens its standard output: 8 KiB of buffer, flushed by println. */
    private static PrintStream open(String path) throws Exception {
        return new PrintStream(new BufferedOutputStream(new FileOutputStream(path), 8192), true, StandardCharsets.UTF_8);
    }
}
