import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.utils.Exit;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * One of Kafka's own command line tools, many commands in one JVM. The argument is the tool's class.
 *
 * <p>Each line of standard input is a JSON array: a file for standard output, one for standard error, then the tool's
 * arguments. Each answer is one JSON object: what the tool threw, or nothing, whether that was because tool and classes
 * do not fit together, and the seconds that it took.
 */
public final class Tool {
    public static void main(String[] tool) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new IllegalStateException("exit " + status);
        });
        Turned out = new Turned();
        Turned err = new Turned();
        System.setOut(buffered(out));
        System.setErr(buffered(err));
        Method command = Class.forName(tool[0]).getMethod("main", String[].class);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = json.readValue(line, String[].class);
            Throwable thrown = null;
            long start = System.nanoTime();
            try (FileOutputStream outFile = new FileOutputStream(words[0]);
                    FileOutputStream errFile = new FileOutputStream(words[1])) {
                out.turnTo(outFile);
                err.turnTo(errFile);
                thrown = thrownBy(command, Arrays.copyOfRange(words, 2, words.length));
                System.out.flush();
                System.err.flush();
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            String error = thrown == null ? "" : thrown.toString();
            Map<String, Object> answer =
                    Map.of("error", error, "misfit", thrown instanceof LinkageError, "seconds", seconds);
            answers.println(json.writeValueAsString(answer));
            answers.flush();
        }
    }

    private static Throwable thrownBy(Method command, String[] words) throws IllegalAccessException {
        try {
            command.invoke(null, (Object) words);
            return null;
        } catch (InvocationTargetException wrapper) {
            return wrapper.getCause();
        }
    }

    /** A stream as the JVM makes its standard output: 8 KiB of buffer, flushed by println. */
    private static PrintStream buffered(OutputStream stream) {
        return new PrintStream(new BufferedOutputStream(stream, 8192), true, StandardCharsets.UTF_8);
    }

    /** A stream that goes on into another file: Scala keeps the first standard output that it meets. */
    private static final class Turned extends FilterOutputStream {
        Turned() {
            super(OutputStream.nullOutputStream());
        }

        void turnTo(OutputStream file) {
            this.out = file;
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            this.out.write(bytes, from, length);
        }
    }
}
