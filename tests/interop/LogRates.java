import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ScheduledFuture;

/**
 * How fast Kafka's {@code UnifiedLog} appends and looks up, one call after the other on one thread.
 *
 * <p>The record with offset N has the timestamp FIRST + N, so that what is found can be checked.
 *
 * <pre>
 * append DIR   --batches N --records N (a batch) --value-bytes N --segment-bytes N   into a new log, which stays open
 * offsets DIR  --lookups N --seed N --records N (a batch)    the place of the batch from which a fetch begins
 * times DIR    --lookups N --seed N    the first record that is as late
 * close DIR
 * </pre>
 */
public final class LogRates extends Conversation {
    private static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;
    private static final int BATCHES_AT_ONCE = 256;

    private final Tasks tasks = new Tasks();
    private UnifiedLog log;

    private LogRates() {
        super(new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE));
    }

    public static void main(String[] arguments) throws Exception {
        new LogRates().hold(arguments);
    }

    /** By the clock, and by the processor: of this thread alone, without those that compile and collect garbage. */
    record Measured(String kind, double seconds, double processorSeconds, long done) { }

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** Two clocks that run while something is measured. */
    private static final class Watch {
        private long nanoseconds;
        private long ofProcessor;

        void start() {
            nanoseconds -= System.nanoTime();
            ofProcessor -= THREADS.getCurrentThreadCpuTime();
        }

        void stop() {
            nanoseconds += System.nanoTime();
            ofProcessor += THREADS.getCurrentThreadCpuTime();
        }

        Measured measured(long done) {
            return new Measured("measured", nanoseconds / 1e9, ofProcessor / 1e9, done);
        }
    }

    @Override
    void run(Arguments arguments) throws Exception {
        switch (arguments.command()) {
            case "append" -> append(new File(arguments.dirs().get(0)), arguments);
            case "offsets" -> offsets(arguments);
            case "times" -> times(arguments);
            case "close" -> {
                tasks.forgetDeferred();
                Closing.cleanly(log);
                log.removeLogMetrics();
            }
            default -> throw new IllegalArgumentException("no command " + arguments.command());
        }
    }

    /** Only the appends are timed, not the making of the batches. */
    private void append(File dir, Arguments arguments) throws IOException {
        log = UnifiedLog.create(dir, new LogConfig(arguments.settings(Map.of())), 0, 0, tasks,
            new BrokerTopicStats(), Time.SYSTEM, 300_000, new ProducerStateManagerConfig(86_400_000, false), 600_000,
            new LogDirFailureChannel(4), true, Optional.empty());
        int records = (int) arguments.number("records", 1);
        byte[] value = new byte[(int) arguments.number("value-bytes", 1)];
        new Random(1).nextBytes(value);
        Watch watch = new Watch();
        long bytes = 0;
        long next = 0;
        for (long left = arguments.number("batches", 1); left > 0; left -= BATCHES_AT_ONCE) {
            List<MemoryRecords> batches = new ArrayList<>();
            for (int i = 0; i < Math.min(left, BATCHES_AT_ONCE); i++, next += records) {
                batches.add(batch(next, records, value));
                bytes += batches.get(i).sizeInBytes();
            }
            watch.start();
            for (MemoryRecords batch : batches) {
                log.appendAsLeader(batch, 0);
            }
            watch.stop();
        }
        log.updateHighWatermark(log.logEndOffset());
        print(watch.measured(bytes));
    }

    private static MemoryRecords batch(long first, int records, byte[] value) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(records * (value.length + 40) + 100),
            RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE, TimestampType.CREATE_TIME, 0L);
        for (int i = 0; i < records; i++) {
            builder.append(FIRST_TIMESTAMP_MS + first + i, ByteBuffer.allocate(8).putLong(0, i).array(), value);
        }
        return builder.build();
    }

    private void offsets(Arguments arguments) throws IOException {
        long records = arguments.number("records", 1);
        long[] drawn = drawn(arguments);
        Watch watch = new Watch();
        watch.start();
        for (long offset : drawn) {
            FetchDataInfo found = log.read(offset, 0, FetchIsolation.LOG_END, false);
            if (found.fetchOffsetMetadata.messageOffset != offset - offset % records) {
                throw new IllegalStateException("offset " + offset + ": " + found.fetchOffsetMetadata);
            }
        }
        watch.stop();
        print(watch.measured(drawn.length));
    }

    private void times(Arguments arguments) throws IOException {
        long[] drawn = drawn(arguments);
        Watch watch = new Watch();
        watch.start();
        for (long offset : drawn) {
            TimestampAndOffset found = log.fetchOffsetByTimestamp(FIRST_TIMESTAMP_MS + offset, Optional.empty())
                .timestampAndOffsetOpt().orElseThrow();
            if (found.offset != offset) {
                throw new IllegalStateException("offset " + offset + ": " + found);
            }
        }
        watch.stop();
        print(watch.measured(drawn.length));
    }

    private long[] drawn(Arguments arguments) {
        Random random = new Random(arguments.number("seed", 0));
        long end = log.logEndOffset();
        return random.longs(arguments.number("lookups", 1), 0, end).toArray();
    }

    /** Without threads of its own: nothing is flushed while it is measured. */
    private static final class Tasks extends DeferredTasks implements Scheduler {
        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return take(task, Math.max(delayMs, 1), periodMs);
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
