import org.apache.kafka.common.utils.Time;

import java.util.function.Supplier;

/** A clock that moves only when it is set. */
final class SetTime implements Time {
    long milliseconds;

    SetTime(long milliseconds) {
        this.milliseconds = milliseconds;
    }

    @Override
    public long milliseconds() {
        return milliseconds;
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public void sleep(long ms) {
        Time.SYSTEM.sleep(ms);
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) throws InterruptedException {
        Time.SYSTEM.waitObject(object, condition, deadlineMs);
    }
}
