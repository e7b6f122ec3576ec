import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategy;

import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.LogCleanerManager;
import kafka.log.LogConfig;
import kafka.log.LogSegment;
import kafka.log.LogToClean;
import kafka.log.PreCleanStats;
import kafka.log.SkimpyOffsetMap;
import kafka.server.BrokerTopicStats;
import kafka.server.LogDirFailureChannel;
import kafka.server.checkpoints.OffsetCheckpointFile;
import kafka.utils.Pool;
import kafka.utils.Scheduler;
import kafka.utils.Throttler;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Time;

import scala.Function0;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/**
 * The storage classes of Kafka 2.8 as a referee: they write the formats v0 and v1, and keep them.
 *
 * <p>Commands and options as of {@code Referee}, where they are here; logs with producer ids are left to that one.
 *
 * <pre>
 * read DIR...       every segment, batch and record; a log that Kafka refuses gives one "refused" line
 * clean DIR...      rounds of Kafka's cleaner, selected and checkpointed by its own manager
 * digest DIR...     one hash over all records
 * bench DIR...      warm-up rounds over copies, then one over each log; --warmups N
 * generate DIR      keyed records in the format of --config message.format.version
 * workload DIR...   seeded random appends in the format of --config message.format.version, by clients of any format:
 *                   the log converts; --no-tombstones: every record has a value
 * </pre>
 */
public final class OldReferee extends Conversation {
    private static final int BENCH_MAP_BYTES = 256 << 20;
    private static final int CLEANER_BUFFER_BYTES = 1 << 20;
    private static final int CLEANER_BUFFER_BYTES_MAX = 20 << 20;
    private static final double CLEANER_MAP_LOAD_FACTOR = 0.9;
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;
    private static final int LEADER_EPOCH = 0;

    private SkimpyOffsetMap offsetMap;
    private int offsetMapBytes;

    private OldReferee() {
        super(new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategy.SNAKE_CASE)
            .setVisibility(PropertyAccessor.FIELD, Visibility.ANY)); // this Jackson is older than Java's records
    }

    public static void main(String[] arguments) throws Exception {
        new OldReferee().hold(arguments);
    }

    @Override
    void run(Arguments arguments) throws Exception {
        switch (arguments.command()) {
            case "read" -> forEachDir(arguments, this::read);
            case "digest" -> forEachDir(arguments, this::digest);
            case "clean" -> forEachDir(arguments, this::clean);
            case "bench" -> forEachDir(arguments, this::bench);
            case "generate" -> forEachDir(arguments, this::generate);
            case "workload" -> forEachDir(arguments, this::workload);
            default -> throw new IllegalArgumentException("no command " + arguments.command());
        }
    }

    // ---- opening and closing, as a broker does ---------------------------------------------------------------------

    /** A log and the tasks that a broker would run later: they run when the log is closed. */
    private record Opened(kafka.log.Log log, DeferredScheduler scheduler, Time time) implements AutoCloseable {
        @Override
        public void close() {
            scheduler.runDeferred();
            log.close();
            log.removeLogMetrics();
        }
    }

    private static Opened open(File dir, Arguments arguments, Map<String, String> defaults) throws IOException {
        Time time = arguments.has("now") ? new SetTime(arguments.number("now", 0)) : Time.SYSTEM;
        return open(dir, arguments, defaults, time);
    }

    private static Opened open(File dir, Arguments arguments, Map<String, String> defaults, Time time)
        throws IOException {
        DeferredScheduler scheduler = new DeferredScheduler();
        TopicPartition partition = kafka.log.Log.parseTopicPartitionName(dir);
        boolean checkpoints = arguments.has("checkpoints");
        LogConfig config = new LogConfig(arguments.settings(defaults), LogConfig.apply$default$2());
        kafka.log.Log log = kafka.log.Log.apply(dir, config,
            checkpoints ? checkpointed(dir, "log-start-offset-checkpoint", partition) : 0L,
            checkpoints ? checkpointed(dir, "recovery-point-offset-checkpoint", partition) : 0L,
            scheduler, new BrokerTopicStats(), time, PRODUCER_EXPIRATION_MS, 600_000, new LogDirFailureChannel(4),
            cleanShutdown(dir, arguments), true);
        log.updateHighWatermark(checkpoints ? checkpointed(dir, "replication-offset-checkpoint", partition)
            : log.logEndOffset());
        return new Opened(log, scheduler, time);
    }

    private static boolean cleanShutdown(File dir, Arguments arguments) {
        return switch (arguments.text("shutdown", "clean")) {
            case "clean" -> true;
            case "unclean" -> false;
            case "auto" -> cleanShutdownFile(dir).exists();
            default -> throw new IllegalArgumentException("--shutdown takes clean, unclean or auto");
        };
    }

    private static File cleanShutdownFile(File dir) {
        return new File(dir.getParentFile(), kafka.log.Log.CleanShutdownFile());
    }

    private static Map<TopicPartition, Object> checkpointed(File dir, String name) {
        File file = new File(dir.getParentFile(), name);
        return file.exists() ? CollectionConverters.asJava(new OffsetCheckpointFile(file, null).read()) : Map.of();
    }

    private static long checkpointed(File dir, String name, TopicPartition partition) {
        return (Long) checkpointed(dir, name).getOrDefault(partition, 0L);
    }

    /** Leaves beside a log what a broker leaves when it is stopped cleanly. */
    private static void closeAsBroker(Opened opened) throws IOException {
        kafka.log.Log log = opened.log();
        log.flush();
        long end = log.logEndOffset();
        opened.close();
        for (String name : List.of("recovery-point-offset-checkpoint", "replication-offset-checkpoint")) {
            Map<TopicPartition, Object> offsets = new HashMap<>(checkpointed(log.dir(), name));
            offsets.put(log.topicPartition(), end);
            OffsetCheckpointFile file = new OffsetCheckpointFile(new File(log.parentDirFile(), name), null);
            file.write(CollectionConverters.asScala(offsets));
        }
        cleanShutdownFile(log.dir()).createNewFile();
    }

    // ---- read ------------------------------------------------------------------------------------------------------

    private void read(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, Map.of())) {
            print(describe(opened.log()));
            for (LogSegment segment : CollectionConverters.asJava(opened.log().logSegments())) {
                readSegment(segment, !arguments.has("batches-only"));
            }
        } catch (RuntimeException | IOException refusal) {
            print(new Refused("refused", dir.getPath(), refusal.toString()));
        }
    }

    private void readSegment(LogSegment segment, boolean withRecords) throws Exception {
        print(new Segment("segment", segment.baseOffset(), segment.size(), segment.largestTimestamp(), List.of()));
        for (FileChannelRecordBatch batch : segment.log().batches()) {
            batch.ensureValid();
            print(describe(batch));
            if (withRecords) {
                for (Record record : batch) {
                    record.ensureValid();
                    print(describe(record));
                }
            }
        }
    }

    private void digest(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, Map.of())) {
            MessageDigest sha256 = sha256();
            long records = 0;
            for (LogSegment segment : CollectionConverters.asJava(opened.log().logSegments())) {
                for (FileChannelRecordBatch batch : segment.log().batches()) {
                    batch.ensureValid();
                    for (Record record : batch) {
                        Digests.add(record.offset(), record.timestamp(), record.key(), record.value(), record.headers(),
                            sha256);
                        records++;
                    }
                }
            }
            print(new Digest("digest", dir.getPath(), records, hex(sha256.digest())));
        }
    }

    private static Log describe(kafka.log.Log log) {
        List<Epoch> epochs = log.leaderEpochCache().isEmpty() ? List.of()
            : CollectionConverters.asJava(log.leaderEpochCache().get().epochEntries()).stream()
                .map(entry -> new Epoch(entry.epoch(), entry.startOffset())).toList();
        return new Log("log", log.dir().getPath(), log.logStartOffset(), log.logEndOffset(), log.highWatermark(),
            log.lastStableOffset(), epochs, List.of());
    }

    private static Batch describe(FileChannelRecordBatch batch) {
        return new Batch("batch", batch.position(), batch.sizeInBytes(), batch.magic(), batch.checksum(),
            batch.compressionType().name, batch.baseOffset(), batch.lastOffset(), batch.countOrNull(),
            batch.baseSequence(), batch.lastSequence(), batch.producerId(), batch.producerEpoch(),
            batch.partitionLeaderEpoch(), batch.isTransactional(), batch.isControlBatch(), null,
            batch.timestampType().name, batch.maxTimestamp());
    }

    private static RecordLine describe(Record record) throws GeneralSecurityException {
        return recordLine(record.offset(), record.timestamp(), record.sequence(), record.key(), record.value(),
            record.headers());
    }

    // ---- clean -----------------------------------------------------------------------------------------------------

    /** Whatever is dirty counts as dirty enough, unless --config says otherwise. */
    private static final Map<String, String> COMPACTED =
        Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.0");

    private void clean(File dir, Arguments arguments) throws Exception {
        int mapBytes = (int) arguments.number("map-bytes", CLEANER_BUFFER_BYTES);
        try (Opened opened = open(dir, arguments, COMPACTED)) {
            LogCleanerManager manager = manager(opened.log());
            for (long round = arguments.number("rounds", 1); round > 0; round--) {
                print(cleanOnce(opened, manager, mapBytes));
            }
        }
    }

    private void bench(File dir, Arguments arguments) throws Exception {
        for (long warmups = arguments.number("warmups", 2); warmups > 0; warmups--) {
            WarmUps.onCopy(dir, copy -> benchOnce(copy, arguments));
        }
        print(benchOnce(dir, arguments));
    }

    private Round benchOnce(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, COMPACTED)) {
            return cleanOnce(opened, manager(opened.log()), BENCH_MAP_BYTES);
        }
    }

    private static LogCleanerManager manager(kafka.log.Log log) {
        Pool<TopicPartition, kafka.log.Log> logs = new Pool<>(Option.empty());
        logs.put(log.topicPartition(), log);
        return new LogCleanerManager(CollectionConverters.asScala(List.of(log.parentDirFile())).toSeq(), logs,
            new LogDirFailureChannel(4));
    }

    /** One round on one log; Cleaner.clean finds the moment that tombstones must be older than. */
    private Round cleanOnce(Opened opened, LogCleanerManager manager, int mapBytes) {
        String dir = opened.log().dir().getPath();
        Option<LogToClean> chosen = manager.grabFilthiestCompactedLog(opened.time(), new PreCleanStats());
        if (chosen.isEmpty()) {
            return new Round("round", dir, null, null, null, 0, 0, 0, 0, 0, 0);
        }
        LogToClean cleanable = chosen.get();
        Cleaner cleaner = cleaner(mapBytes);
        long started = System.nanoTime();
        Tuple2<Object, CleanerStats> result = cleaner.clean(cleanable);
        double seconds = (System.nanoTime() - started) / 1e9;
        long endOffset = (Long) result._1();
        manager.doneCleaning(cleanable.topicPartition(), opened.log().parentDirFile(), endOffset);
        CleanerStats stats = result._2();
        return new Round("round", dir, cleanable.firstDirtyOffset(), cleanable.firstUncleanableOffset(), endOffset,
            seconds, stats.bytesRead(), stats.bytesWritten(), stats.messagesRead(), stats.messagesWritten(),
            stats.invalidMessagesRead());
    }

    private Cleaner cleaner(int mapBytes) {
        if (offsetMap == null || offsetMapBytes != mapBytes) {
            offsetMap = null; // the old one may be collected before the new one is allocated
            offsetMap = new SkimpyOffsetMap(mapBytes, "MD5");
            offsetMapBytes = mapBytes;
        }
        Throttler unlimited = new Throttler(Double.MAX_VALUE, 300, true, "cleaner-io", "bytes", Time.SYSTEM);
        return new Cleaner(0, offsetMap, CLEANER_BUFFER_BYTES, CLEANER_BUFFER_BYTES_MAX,
            CLEANER_MAP_LOAD_FACTOR, unlimited, Time.SYSTEM, partition -> BoxedUnit.UNIT);
    }

    // ---- generate --------------------------------------------------------------------------------------------------

    private void generate(File dir, Arguments arguments) throws Exception {
        Files.createDirectories(dir.toPath());
        Opened opened = open(dir, arguments, Map.of("segment.bytes", arguments.text("segment-bytes", "1073741824")));
        kafka.log.Log log = opened.log();
        long recordsMax = arguments.number("records", Long.MAX_VALUE);
        Filler filler = new Filler(arguments, log.config().messageFormatVersion().recordVersion().value);
        while (filler.records < recordsMax) {
            log.appendAsLeader(
                filler.nextBatch(recordsMax), LEADER_EPOCH, log.appendAsLeader$default$3(), log.appendAsLeader$default$4());
        }
        log.roll(Option.empty()); // all that was written is cleanable, the active segment is empty
        log.updateHighWatermark(log.logEndOffset());
        Generated generated = new Generated("generated", dir.getPath(), filler.records, log.size(),
            log.numberOfSegments(), FIRST_TIMESTAMP_MS + filler.records);
        closeAsBroker(opened);
        print(generated);
    }

    /** Batches of generated records: wrappers, or messages one behind the other. */
    private static final class Filler {
        private final GeneratedRecords drawn;
        private final byte magic;
        private final CompressionType codec;
        private final ByteBuffer buffer;
        private long records;

        Filler(Arguments arguments, byte magic) {
            drawn = new GeneratedRecords(arguments);
            this.magic = magic;
            codec = CompressionType.forName(arguments.text("codec", "none"));
            buffer = ByteBuffer.allocate((int) arguments.number("batch-bytes", 16_384));
        }

        MemoryRecords nextBatch(long recordsMax) {
            buffer.clear();
            MemoryRecordsBuilder batch = MemoryRecords.builder(buffer, magic, codec, TimestampType.CREATE_TIME, 0L);
            ByteBuffer value;
            do {
                ByteBuffer key = drawn.key(records);
                value = drawn.value();
                batch.append(FIRST_TIMESTAMP_MS + records, key, value.duplicate());
                records++;
            } while (records < recordsMax && batch.hasRoomFor(FIRST_TIMESTAMP_MS + records, drawn.lastKey(), value,
                Record.EMPTY_HEADERS));
            return batch.build();
        }
    }

    // ---- workload --------------------------------------------------------------------------------------------------

    private void workload(File dir, Arguments arguments) throws Exception {
        Files.createDirectories(dir.toPath());
        SetTime time = new SetTime(arguments.number("now", FIRST_TIMESTAMP_MS));
        Opened opened = open(dir, arguments, Map.of(), time);
        Random random = new Random(arguments.number("seed", 0) * 1_000_003L + opened.log().logEndOffset());
        Workload workload = new Workload(opened.log(), random, time, arguments);
        for (long steps = arguments.number("steps", 40); steps > 0; steps--) {
            workload.step();
        }
        Generated generated = new Generated("generated", dir.getPath(), workload.records, opened.log().size(),
            opened.log().numberOfSegments(), time.milliseconds());
        closeAsBroker(opened);
        print(generated);
    }

    /** Random appends; the same random source on the same log gives the same records. */
    private static final class Workload {
        private static final int KEYS_MAX = 300; // some tombstones must outlive the next round

        private final kafka.log.Log log;
        private final Random random;
        private final SetTime time;
        private final List<String> codecs;
        private final boolean withTombstones;
        private final RandomRecords drawn;
        private long records = 0;

        Workload(kafka.log.Log log, Random random, SetTime time, Arguments arguments) {
            this.log = log;
            this.random = random;
            this.time = time;
            codecs = arguments.all("codec");
            withTombstones = !arguments.has("no-tombstones");
            drawn = new RandomRecords(random, KEYS_MAX, arguments.has("unkeyed"));
        }

        void step() {
            if (random.nextInt(20) == 0) {
                log.roll(Option.empty());
            } else {
                MemoryRecords batch = batch(CompressionType.forName(drawn.oneOf(codecs)));
                log.appendAsLeader(batch, LEADER_EPOCH, log.appendAsLeader$default$3(), log.appendAsLeader$default$4());
            }
            time.milliseconds += random.nextInt(60_000);
        }

        private MemoryRecords batch(CompressionType codec) {
            byte magic = magicOfClient(codec);
            boolean withHeaders = Math.min(magic, magicOfLog()) == RecordBatch.MAGIC_VALUE_V2;
            MemoryRecordsBuilder batch =
                MemoryRecords.builder(ByteBuffer.allocate(16_384), magic, codec, TimestampType.CREATE_TIME, 0L);
            for (int left = 1 + random.nextInt(8); left > 0; left--) {
                byte[] value = drawn.value();
                batch.append(time.milliseconds - random.nextInt(1_000), drawn.key(),
                    value == null && !withTombstones ? new byte[0] : value,
                    withHeaders ? drawn.headers() : Record.EMPTY_HEADERS);
                records++;
            }
            return batch.build();
        }

        /** Mostly the log's own; only v2 has zstd. */
        private byte magicOfClient(CompressionType codec) {
            byte other = (byte) random.nextInt(RecordBatch.CURRENT_MAGIC_VALUE + 1);
            return random.nextInt(4) > 0 || codec == CompressionType.ZSTD ? magicOfLog() : other;
        }

        private byte magicOfLog() {
            return log.config().messageFormatVersion().recordVersion().value;
        }
    }

    // ---- small parts -----------------------------------------------------------------------------------------------

    /** Without threads of its own. */
    private static final class DeferredScheduler extends DeferredTasks implements Scheduler {
        @Override
        public ScheduledFuture<?> schedule(
            String name, Function0<BoxedUnit> task, long delay, long period, TimeUnit unit) {
            return take(task::apply, unit.toMillis(delay), unit.toMillis(period));
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public boolean isStarted() {
            return true;
        }
    }
}
