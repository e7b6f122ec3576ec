import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import org.apache.kafka.server.util.FileLock;

/** Kafka's own lock of a log dir, step by step: opens the file, then does what each line of the input says. */
public class HoldLock {
    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    /** Waits within FileLock.destroy, between letting go and deleting the file. */
    private static final class PausingFile extends File {
        PausingFile(String path) {
            super(path);
        }

        @Override
        public boolean exists() {
            say("let go");
            try {
                INPUT.readLine();
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
            return super.exists();
        }
    }

    private static void say(String text) {
        System.out.println(text);
        System.out.flush();
    }

    public static void main(String[] arguments) throws IOException {
        FileLock lock = new FileLock(new PausingFile(arguments[0]));
        say("opened");
        for (String line = INPUT.readLine(); line != null; line = INPUT.readLine()) {
            switch (line) {
                case "lock" -> say(lock.tryLock() ? "locked" : "refused");
                case "destroy" -> {
                    lock.destroy();
                    say("destroyed");
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }
}
