import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Runs at once what is due at once, keeps what is due later (deletions), drops what is periodic. */
class DeferredTasks {
    private final List<Runnable> deferred = new ArrayList<>();

    final ScheduledFuture<?> take(Runnable task, long delayMs, long periodMs) {
        if (periodMs < 0 && delayMs <= 0) {
            task.run();
        } else if (periodMs < 0) {
            deferred.add(task);
        }
        return new Scheduled();
    }

    final void runDeferred() {
        deferred.forEach(Runnable::run);
        deferred.clear();
    }

    final void forgetDeferred() {
        deferred.clear();
    }

    /** What the giver of a task holds and may cancel. */
    private static final class Scheduled extends FutureTask<Void> implements ScheduledFuture<Void> {
        Scheduled() {
            super(() -> null);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return 0;
        }

        @Override
        public int compareTo(Delayed other) {
            return 0;
        }
    }
}
