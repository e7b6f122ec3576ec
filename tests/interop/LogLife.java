import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.OffsetResultHolder;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ScheduledFuture;

/**
 * The life of one log at a time, as Kafka's {@code UnifiedLog} lives it, step by step.
 *
 * <p>Each request is one step: a word, the partition directory, and options, each with a value. {@code --now MS} sets the
 * clock first. The answer is one line: the result, or the simple name of the exception; then what the log says of itself.
 *
 * <pre>
 * open DIR       --start N --expiration MS --config K=V...
 * append DIR     --data BASE64 --epoch N --origin CLIENT|COORDINATOR|REPLICATION|RAFT_LEADER
 * follow DIR     --data BASE64 --epoch N
 * roll DIR       [--at N]
 * flush DIR      and the recovery point goes into the checkpoint of the log dir, as a broker's flush does both
 * lookup DIR     --time MS
 * increment DIR  --to N
 * close DIR      as a broker's clean stop does
 * kill DIR       lets go of the files, and nothing else
 * </pre>
 */
public final class LogLife extends Conversation {
    private final SetTime time = new SetTime(0);
    private final Tasks tasks = new Tasks();
    private UnifiedLog log;

    private LogLife() {
        super(new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE));
    }

    public static void main(String[] arguments) throws Exception {
        new LogLife().hold(arguments);
    }

    record Answer(String kind, Map<String, Object> result, String error, String message, State state) { }

    record State(long logStartOffset, long logEndOffset, long recoveryPoint,
                 List<long[]> segments, List<long[]> epochs, List<Known> producers) { }

    record Known(long producerId, int epoch, int coordinatorEpoch, long lastTimestampMs, Long openTxnFirstOffset,
                 List<long[]> batches) { }

    @Override
    void run(Arguments arguments) throws Exception {
        time.milliseconds = arguments.number("now", time.milliseconds);
        Map<String, Object> result = new LinkedHashMap<>();
        String error = null;
        String message = null;
        try {
            step(arguments, new File(arguments.dirs().get(0)).getAbsoluteFile(), result);
        } catch (RecordValidationException refused) { // what a client is told is the exception inside
            error = refused.invalidException().getClass().getSimpleName();
            message = refused.invalidException().getMessage() + " " + refused.recordErrors();
        } catch (Exception | Error refused) { // snappy has errors of its own for damaged bytes
            error = refused.getClass().getSimpleName();
            message = refused.getMessage() + (refused.getCause() == null ? "" : " <- " + refused.getCause());
            result.clear();
        }
        print(new Answer("answer", error == null ? result : null, error, message, log == null ? null : state()));
    }

    private void step(Arguments arguments, File dir, Map<String, Object> result) throws Exception {
        switch (arguments.command()) {
            case "open" -> open(dir, arguments);
            case "append" -> append(arguments, result);
            case "follow" -> follow(arguments, result);
            case "roll" -> result.put("base_offset", log.roll(optional(arguments, "at")).baseOffset());
            case "flush" -> flush(false);
            case "lookup" -> lookup(arguments, result);
            case "increment" -> {
                log.updateHighWatermark(log.logEndOffset()); // no replica lags behind
                result.put("is_incremented", log.maybeIncrementLogStartOffset(arguments.number("to", 0),
                    LogStartOffsetIncrementReason.ClientRecordDeletion));
            }
            case "close" -> {
                flush(true);
                Closing.cleanly(log);
                forget();
            }
            case "kill" -> {
                if (log != null) {
                    Closing.abruptly(log);
                    forget();
                }
            }
            default -> throw new IllegalArgumentException("no step " + arguments.command());
        }
    }

    private void open(File dir, Arguments arguments) throws IOException {
        log = UnifiedLog.create(dir, new LogConfig(arguments.settings(Map.of())), arguments.number("start", 0),
            0, tasks, new BrokerTopicStats(), time, 300_000,
            new ProducerStateManagerConfig((int) arguments.number("expiration", 86_400_000), false), 600_000,
            new LogDirFailureChannel(4), true, Optional.empty());
    }

    /** Deletions that wait are forgotten: a broker that stops leaves the files to its next start. */
    private void forget() {
        tasks.forgetDeferred();
        log.removeLogMetrics();
        log = null;
    }

    private void flush(boolean everything) throws IOException {
        log.flush(everything);
        OffsetCheckpointFile file =
            new OffsetCheckpointFile(new File(log.parentDirFile(), "recovery-point-offset-checkpoint"), null);
        Map<TopicPartition, Long> offsets = new HashMap<>(file.read());
        offsets.put(log.topicPartition(), log.recoveryPoint());
        file.write(offsets);
    }

    private void append(Arguments arguments, Map<String, Object> result) {
        long end = log.logEndOffset();
        int segments = log.numberOfSegments();
        LogAppendInfo appended = log.appendAsLeader(data(arguments), (int) arguments.number("epoch", 0),
            AppendOrigin.valueOf(arguments.text("origin", "CLIENT")), RequestLocal.noCaching(),
            VerificationGuard.SENTINEL, (short) 1);
        tell(appended, end, segments, result);
    }

    private void follow(Arguments arguments, Map<String, Object> result) {
        long end = log.logEndOffset();
        int segments = log.numberOfSegments();
        tell(log.appendAsFollower(data(arguments), (int) arguments.number("epoch", 0)), end, segments, result);
    }

    private void tell(LogAppendInfo appended, long end, int segments, Map<String, Object> result) {
        result.put("first_offset", appended.firstOffset());
        result.put("last_offset", appended.lastOffset());
        result.put("log_append_time_ms", appended.logAppendTime());
        result.put("has_rolled", log.numberOfSegments() > segments);
        result.put("is_duplicate", appended.firstOffset() >= 0 && appended.lastOffset() < end
            && appended.lastOffset() >= appended.firstOffset()); // without records the last offset is below the first
    }

    private static MemoryRecords data(Arguments arguments) {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(arguments.text("data", ""))));
    }

    private void lookup(Arguments arguments, Map<String, Object> result) throws Exception {
        OffsetResultHolder found = log.fetchOffsetByTimestamp(arguments.number("time", 0), Optional.empty());
        Optional<TimestampAndOffset> place = found.timestampAndOffsetOpt();
        if (found.maybeOffsetsError().isPresent()) {
            throw found.maybeOffsetsError().get();
        }
        result.put("timestamp_ms", place.map(one -> one.timestamp).orElse(null));
        result.put("offset", place.map(one -> one.offset).orElse(null));
        result.put("leader_epoch", place.flatMap(one -> one.leaderEpoch).orElse(null));
    }

    private static Optional<Long> optional(Arguments arguments, String name) {
        return arguments.has(name) ? Optional.of(arguments.number(name, 0)) : Optional.empty();
    }

    // ---- what the log says of itself -------------------------------------------------------------------------------

    private State state() {
        return new State(log.logStartOffset(), log.logEndOffset(), log.recoveryPoint(),
            log.logSegments().stream().map(LogLife::describe).toList(),
            log.leaderEpochCache().epochEntries().stream()
                .map(entry -> new long[] {entry.epoch(), entry.startOffset()}).toList(),
            log.producerStateManager().activeProducers().values().stream()
                .sorted(Comparator.comparingLong(ProducerStateEntry::producerId)).map(LogLife::describe).toList());
    }

    private static long[] describe(LogSegment segment) {
        return new long[] {segment.baseOffset(), segment.size()};
    }

    private static Known describe(ProducerStateEntry entry) {
        OptionalLong open = entry.currentTxnFirstOffset();
        return new Known(entry.producerId(), entry.producerEpoch(), entry.coordinatorEpoch(), entry.lastTimestamp(),
            open.isPresent() ? (Long) open.getAsLong() : null,
            entry.batchMetadata().stream()
                .map(one -> new long[] {one.lastSeq(), one.lastOffset(), one.offsetDelta(), one.timestamp()}).toList());
    }

    /** Without threads of its own. */
    private static final class Tasks extends DeferredTasks implements Scheduler {
        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return take(task, delayMs, periodMs);
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
