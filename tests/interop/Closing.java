import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;

/** What Kafka's releases call differently when a log is closed. */
final class Closing {
    private Closing() { }

    /** As a broker that stops: since 4.4 it trims the indexes of the active segment in a step of its own. */
    static void cleanly(AutoCloseable log) throws Exception {
        Method prepare = found(log, "prepareActiveSegmentForClose");
        if (prepare != null) {
            invoke(log, prepare);
        }
        log.close();
    }

    /** As a process that was killed: files are closed, nothing is written. */
    static void abruptly(Object log) throws Exception {
        Method close = found(log, "closeQuietly"); // since 4.4
        invoke(log, close == null ? found(log, "closeHandlers") : close);
    }

    private static Method found(Object log, String name) {
        return Arrays.stream(log.getClass().getMethods())
            .filter(method -> method.getName().equals(name) && method.getParameterCount() == 0).findFirst().orElse(null);
    }

    private static void invoke(Object log, Method method) throws Exception {
        try {
            method.invoke(log);
        } catch (InvocationTargetException wrapped) {
            throw wrapped.getCause() instanceof Exception cause ? cause : wrapped;
        }
    }
}
