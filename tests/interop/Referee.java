import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.sun.management.OperatingSystemMXBean;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogCleaner;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Stream;

/**
 * Kafka's own storage classes as a referee over log directories, without a broker.
 *
 * <p>{@code Referee COMMAND ARGUMENT...} runs one command. Without arguments it serves: each line of standard input is a
 * JSON array of such strings, each answer is JSON lines closed by {@code {"kind":"done"}}. Commands work on partition
 * directories {@code LOGDIR/TOPIC-PARTITION} and change them as a starting broker would: hand in copies.
 *
 * <pre>
 * read DIR...       every segment, batch and record; a log that Kafka refuses gives one "refused" line
 * digest DIR...     one SHA-256 over all records of a log
 * clean DIR...      rounds of Kafka's cleaner, selected and checkpointed by its own manager; --expire: retention first
 * bench DIR         warm-up rounds on copies, which begin where the cleaner's checkpoint says, then one timed round
 * clean-all DIR...  the log cleaner of a broker with --threads cleaners, over logs of one log dir that were never cleaned;
 *                   as many of them as --warmups says are first cleaned on copies
 * expire DIR...     Kafka's retention, once
 * lookup DIR...     where a fetch from each --offset begins, and what ListOffsets answers for each --time (both repeatable)
 * generate DIR      keyed records, fast, behind what the log holds: uniformly drawn keys, or --in-order
 * workload DIR...   seeded random appends: transactions, idempotence, tombstones, epochs, codecs, headers;
 *                   continues the producers that it finds; --codec C (repeatable) restricts the codecs,
 *                   --unkeyed adds records without a key, --now is where its clock starts, --steps about how many batches,
 *                   --no-transactions; --first-key N draws from a few keys from number N on
 *
 * --config K=V (repeatable)   topic configuration
 * --now MS                    the clock of the whole command
 * --checkpoints               log start, recovery point and high watermark from the log dir's checkpoint files;
 *                             otherwise 0, 0 and the log end
 * --shutdown clean|unclean|auto   auto: clean when the log dir holds .kafka_cleanshutdown; default clean
 * </pre>
 */
public final class Referee extends Conversation {
    private static final int BENCH_MAP_BYTES = 256 << 20;
    private static final int CLEANER_BUFFER_BYTES = 1 << 20;
    private static final int CLEANER_BUFFER_BYTES_MAX = 20 << 20;
    private static final double CLEANER_MAP_LOAD_FACTOR = 0.9;
    private static final int POLL_MS = 10;
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");

    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private SkimpyOffsetMap offsetMap;
    private int offsetMapBytes;

    private Referee() {
        super(new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE));
    }

    public static void main(String[] arguments) throws Exception {
        new Referee().hold(arguments);
    }

    @Override
    void run(Arguments arguments) throws Exception {
        switch (arguments.command()) {
            case "read" -> forEachDir(arguments, this::read);
            case "digest" -> forEachDir(arguments, this::digest);
            case "clean" -> forEachDir(arguments, this::clean);
            case "bench" -> forEachDir(arguments, this::bench);
            case "clean-all" -> cleanAll(arguments);
            case "expire" -> forEachDir(arguments, this::expire);
            case "lookup" -> forEachDir(arguments, this::lookup);
            case "generate" -> forEachDir(arguments, this::generate);
            case "workload" -> forEachDir(arguments, this::workload);
            default -> throw new IllegalArgumentException("no command " + arguments.command());
        }
    }

    // ---- opening and closing, as a broker does ---------------------------------------------------------------------

    /** A log and the tasks that a broker would run later: they run when the log is closed. */
    private record Opened(UnifiedLog log, DeferredScheduler scheduler, Time time) implements AutoCloseable {
        @Override
        public void close() throws Exception {
            scheduler.runDeferred();
            Closing.cleanly(log);
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
        TopicPartition partition = UnifiedLog.parseTopicPartitionName(dir);
        boolean checkpoints = arguments.has("checkpoints");
        UnifiedLog log = UnifiedLog.create(dir, config(arguments, defaults),
            checkpoints ? checkpointed(dir, "log-start-offset-checkpoint", partition) : 0L,
            checkpoints ? checkpointed(dir, "recovery-point-offset-checkpoint", partition) : 0L,
            scheduler, new BrokerTopicStats(), time, 300_000,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), 600_000, new LogDirFailureChannel(4),
            cleanShutdown(dir, arguments), Optional.empty());
        log.updateHighWatermark(checkpoints ? checkpointed(dir, "replication-offset-checkpoint", partition)
            : log.logEndOffset());
        return new Opened(log, scheduler, time);
    }

    private static LogConfig config(Arguments arguments, Map<String, String> defaults) {
        Map<String, String> settings = arguments.settings(defaults);
        String segmentBytes = settings.get("segment.bytes");
        if (segmentBytes != null && Integer.parseInt(segmentBytes) < 1 << 20) {
            settings.remove("segment.bytes"); // Kafka 4 takes less than 1 MiB only by this name
            settings.put(LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG, segmentBytes);
        }
        return new LogConfig(settings);
    }

    private static boolean cleanShutdown(File dir, Arguments arguments) {
        return switch (arguments.text("shutdown", "clean")) {
            case "clean" -> true;
            case "unclean" -> false;
            case "auto" -> new CleanShutdownFileHandler(dir.getParent()).exists();
            default -> throw new IllegalArgumentException("--shutdown takes clean, unclean or auto");
        };
    }

    private static long checkpointed(File dir, String name, TopicPartition partition) throws IOException {
        File file = new File(dir.getParentFile(), name);
        return file.exists() ? new OffsetCheckpointFile(file, null).read().getOrDefault(partition, 0L) : 0L;
    }

    /** Leaves beside a log what a broker leaves when it is stopped cleanly. */
    private static void closeAsBroker(Opened opened) throws Exception {
        UnifiedLog log = opened.log();
        log.flush(true);
        long end = log.logEndOffset();
        opened.close();
        for (String name : List.of("recovery-point-offset-checkpoint", "replication-offset-checkpoint")) {
            OffsetCheckpointFile file = new OffsetCheckpointFile(new File(log.parentDirFile(), name), null);
            Map<TopicPartition, Long> offsets = new HashMap<>(file.read());
            offsets.put(log.topicPartition(), end);
            file.write(offsets);
        }
        new CleanShutdownFileHandler(log.parentDir()).write(1L);
    }

    // ---- read, digest ----------------------------------------------------------------------------------------------

    private void read(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, Map.of())) {
            print(describe(opened.log()));
            for (LogSegment segment : opened.log().logSegments()) {
                readSegment(segment, !arguments.has("batches-only"));
            }
        } catch (RuntimeException | IOException refusal) {
            print(new Refused("refused", dir.getPath(), refusal.toString()));
        }
    }

    private void readSegment(LogSegment segment, boolean withRecords) throws Exception {
        print(describe(segment));
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

    private static Log describe(UnifiedLog log) {
        List<Epoch> epochs = log.leaderEpochCache().epochEntries().stream()
            .map(entry -> new Epoch(entry.epoch(), entry.startOffset())).toList();
        List<Producer> producers = log.producerStateManager().activeProducers().values().stream()
            .sorted(Comparator.comparingLong(ProducerStateEntry::producerId)).map(Referee::describe).toList();
        return new Log("log", log.dir().getPath(), log.logStartOffset(), log.logEndOffset(), log.highWatermark(),
            log.lastStableOffset(), epochs, producers);
    }

    private static Producer describe(ProducerStateEntry entry) {
        return new Producer(entry.producerId(), entry.producerEpoch(), lastSequence(entry), entry.lastDataOffset(),
            entry.coordinatorEpoch(), entry.lastTimestamp(), boxed(entry.currentTxnFirstOffset()));
    }

    private static int lastSequence(ProducerStateEntry entry) {
        return entry.batchMetadata().stream().reduce((first, second) -> second).map(batch -> batch.lastSeq())
            .orElse(RecordBatch.NO_SEQUENCE);
    }

    private static Segment describe(LogSegment segment) throws IOException {
        List<Aborted> aborted = segment.txnIndex().allAbortedTxns().stream()
            .map(txn -> new Aborted(txn.producerId(), txn.firstOffset(), txn.lastOffset(), txn.lastStableOffset()))
            .toList();
        return new Segment("segment", segment.baseOffset(), segment.size(), segment.largestTimestamp(), aborted);
    }

    private static Batch describe(FileChannelRecordBatch batch) {
        return new Batch("batch", batch.position(), batch.sizeInBytes(), batch.magic(), batch.checksum(),
            batch.compressionType().name, batch.baseOffset(), batch.lastOffset(), batch.countOrNull(),
            batch.baseSequence(), batch.lastSequence(), batch.producerId(), batch.producerEpoch(),
            batch.partitionLeaderEpoch(), batch.isTransactional(), batch.isControlBatch(),
            boxed(batch.deleteHorizonMs()), batch.timestampType().name, batch.maxTimestamp());
    }

    private static RecordLine describe(Record record) throws GeneralSecurityException {
        return recordLine(record.offset(), record.timestamp(), record.sequence(), record.key(), record.value(),
            record.headers());
    }

    private void digest(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, Map.of())) {
            MessageDigest sha256 = sha256();
            long records = 0;
            for (LogSegment segment : opened.log().logSegments()) {
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

    // ---- lookup ----------------------------------------------------------------------------------------------------

    private void lookup(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, Map.of())) {
            for (String offset : arguments.all("offset")) {
                print(fetchedFrom(opened.log(), Long.parseLong(offset)));
            }
            for (String time : arguments.all("time")) {
                print(listedAt(opened.log(), Long.parseLong(time)));
            }
        }
    }

    private static LookedUp fetchedFrom(UnifiedLog log, long offset) throws IOException {
        String dir = log.dir().getPath();
        try {
            FetchDataInfo fetched = log.read(offset, 1, FetchIsolation.LOG_END, true);
            if (fetched.records.sizeInBytes() == 0) {
                return new LookedUp("lookup", dir, "offset", offset, null, null, null, null, null);
            }
            LogOffsetMetadata place = fetched.fetchOffsetMetadata;
            return new LookedUp("lookup", dir, "offset", offset, fetched.records.batches().iterator().next().baseOffset(),
                null, place.segmentBaseOffset, place.relativePositionInSegment, null);
        } catch (OffsetOutOfRangeException error) {
            return new LookedUp("lookup", dir, "offset", offset, null, null, null, null, error.getMessage());
        }
    }

    private static LookedUp listedAt(UnifiedLog log, long time) {
        return log.fetchOffsetByTimestamp(time, Optional.empty()).timestampAndOffsetOpt()
            .map(found -> new LookedUp("lookup", log.dir().getPath(), "time", time, found.offset, found.timestamp, null,
                null, null))
            .orElse(new LookedUp("lookup", log.dir().getPath(), "time", time, null, null, null, null, null));
    }

    // ---- clean, bench, expire --------------------------------------------------------------------------------------

    /** Whatever is dirty counts as dirty enough, unless --config says otherwise. */
    private static final Map<String, String> COMPACTED =
        Map.of("cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.0");

    private void clean(File dir, Arguments arguments) throws Exception {
        int mapBytes = (int) arguments.number("map-bytes", BENCH_MAP_BYTES);
        try (Opened opened = open(dir, arguments, COMPACTED)) {
            LogCleanerManager manager = manager(opened.log());
            if (arguments.has("first-dirty")) {
                long firstDirty = arguments.number("first-dirty", 0);
                manager.updateCheckpoints(dir.getParentFile(),
                    Optional.of(Map.entry(opened.log().topicPartition(), firstDirty)), Optional.empty());
            }
            if (arguments.has("expire")) {
                opened.log().deleteOldSegments();
            }
            for (long round = arguments.number("rounds", 1); round > 0; round--) {
                print(cleanOnce(opened, manager, mapBytes));
            }
            if (arguments.has("keep-deleted")) {
                opened.scheduler().forgetDeferred();
            }
        }
    }

    private static LogCleanerManager manager(UnifiedLog log) {
        ConcurrentHashMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        logs.put(log.topicPartition(), log);
        return new LogCleanerManager(List.of(log.parentDirFile()), logs, new LogDirFailureChannel(4));
    }

    /** One round on one log. Only Cleaner.doClean is timed; it fsyncs what it writes. */
    private Round cleanOnce(Opened opened, LogCleanerManager manager, int mapBytes) throws Exception {
        String dir = opened.log().dir().getPath();
        Optional<LogToClean> chosen = manager.grabFilthiestCompactedLog(opened.time(), new PreCleanStats());
        if (chosen.isEmpty()) {
            return new Round("round", dir, null, null, null, 0, 0, 0, 0, 0, 0);
        }
        LogToClean cleanable = chosen.get();
        Cleaner cleaner = cleaner(mapBytes);
        long started = System.nanoTime();
        Map.Entry<Long, CleanerStats> result = cleaner.doClean(cleanable, opened.time().milliseconds());
        double seconds = (System.nanoTime() - started) / 1e9;
        manager.doneCleaning(cleanable.topicPartition(), opened.log().parentDirFile(), result.getKey());
        CleanerStats stats = result.getValue();
        return new Round("round", dir, cleanable.firstDirtyOffset(), cleanable.firstUncleanableOffset(),
            result.getKey(), seconds, stats.bytesRead(), stats.bytesWritten(), stats.messagesRead(),
            stats.messagesWritten(), stats.invalidMessagesRead());
    }

    private Cleaner cleaner(int mapBytes) throws GeneralSecurityException {
        if (offsetMap == null || offsetMapBytes != mapBytes) {
            offsetMap = null; // the old one may be collected before the new one is allocated
            offsetMap = new SkimpyOffsetMap(mapBytes);
            offsetMapBytes = mapBytes;
        }
        Throttler unlimited = new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM);
        return new Cleaner(0, offsetMap, CLEANER_BUFFER_BYTES, CLEANER_BUFFER_BYTES_MAX, CLEANER_MAP_LOAD_FACTOR,
            unlimited, Time.SYSTEM, partition -> { });
    }

    private void bench(File dir, Arguments arguments) throws Exception {
        for (long warmups = arguments.number("warmups", 2); warmups > 0; warmups--) {
            WarmUps.onCopy(dir, copy -> cleanSilently(copy, arguments));
        }
        clean(dir, arguments);
    }

    private void cleanSilently(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, COMPACTED)) {
            cleanOnce(opened, manager(opened.log()), (int) arguments.number("map-bytes", BENCH_MAP_BYTES));
        }
    }

    /**
     * Timed from the start of the cleaner's threads to the last checkpoint. The logs are open before, as a broker has
     * them. The offset map is what a broker has by default for all threads together.
     */
    private void cleanAll(Arguments arguments) throws Exception {
        List<File> dirs = arguments.dirs().stream().map(dir -> new File(dir).getAbsoluteFile()).toList();
        for (File dir : dirs.subList(0, (int) Math.min(dirs.size(), arguments.number("warmups", 0)))) {
            WarmUps.onCopy(dir, copy -> cleanSilently(copy, arguments));
        }
        offsetMap = null; // the cleaners have their own
        List<Opened> opened = new ArrayList<>();
        try {
            for (File dir : dirs) {
                opened.add(open(dir, arguments, COMPACTED));
            }
            print(cleanedAll(opened, arguments));
        } finally {
            for (Opened log : opened) {
                log.close();
            }
        }
    }

    private static CleanedAll cleanedAll(List<Opened> opened, Arguments arguments) throws Exception {
        ConcurrentHashMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        opened.forEach(one -> logs.put(one.log().topicPartition(), one.log()));
        File logDir = opened.get(0).log().parentDirFile();
        CleanerConfig config = new CleanerConfig((int) arguments.number("threads", 1),
            CleanerConfig.LOG_CLEANER_DEDUPE_BUFFER_SIZE, CLEANER_MAP_LOAD_FACTOR, CLEANER_BUFFER_BYTES,
            CLEANER_BUFFER_BYTES_MAX, Double.MAX_VALUE, CleanerConfig.LOG_CLEANER_BACKOFF_MS, true);
        LogCleaner cleaner = new LogCleaner(config, List.of(logDir), logs, new LogDirFailureChannel(4), Time.SYSTEM);
        Path checkpoint = logDir.toPath().resolve(LogCleanerManager.OFFSET_CHECKPOINT_FILE);
        long cpuBefore = PROCESS.getProcessCpuTime();
        long started = System.nanoTime();
        cleaner.startup();
        try {
            while (checkpointed(checkpoint) < logs.size()) {
                if (cleaner.deadThreadCount() > 0
                    || !cleaner.cleanerManager().uncleanablePartitions(logDir.getPath()).isEmpty()) {
                    throw new IllegalStateException("the log cleaner gave up");
                }
                Thread.sleep(POLL_MS);
            }
            double seconds = (System.nanoTime() - started) / 1e9;
            return new CleanedAll("cleaned-all", seconds, (PROCESS.getProcessCpuTime() - cpuBefore) / 1e9);
        } finally {
            cleaner.shutdown();
        }
    }

    /** How many partitions a checkpoint says that it has; the cleaner replaces the file behind each round. */
    private static int checkpointed(Path file) throws IOException {
        try (Stream<String> lines = Files.lines(file)) {
            return lines.skip(1).findFirst().map(Integer::parseInt).orElse(0);
        } catch (NoSuchFileException notYet) {
            return 0;
        }
    }

    private void expire(File dir, Arguments arguments) throws Exception {
        try (Opened opened = open(dir, arguments, Map.of())) {
            int segments = opened.log().deleteOldSegments();
            print(new Expired("expired", dir.getPath(), segments, opened.log().logStartOffset()));
        }
    }

    // ---- generate --------------------------------------------------------------------------------------------------

    private void generate(File dir, Arguments arguments) throws Exception {
        Files.createDirectories(dir.toPath());
        Opened opened = open(dir, arguments, Map.of("segment.bytes", arguments.text("segment-bytes", "1073741824")));
        UnifiedLog log = opened.log();
        long recordsMax = arguments.number("records", Long.MAX_VALUE);
        long bytesMax = arguments.number("bytes", Long.MAX_VALUE);
        Filler filler = new Filler(arguments);
        while (filler.records < recordsMax && log.size() < bytesMax) {
            log.appendAsLeader(filler.nextBatch(recordsMax), 0);
        }
        log.roll(); // all that was written is cleanable, the active segment is empty
        log.updateHighWatermark(log.logEndOffset());
        Generated generated =
            new Generated("generated", dir.getPath(), filler.records, log.size(), log.numberOfSegments(),
                FIRST_TIMESTAMP_MS + filler.records);
        closeAsBroker(opened);
        print(generated);
    }

    /** Batches of generated records. */
    private static final class Filler {
        private final GeneratedRecords drawn;
        private final Compression compression;
        private final ByteBuffer buffer;
        private long records;

        Filler(Arguments arguments) {
            drawn = new GeneratedRecords(arguments);
            compression = Compression.of(arguments.text("codec", "none")).build();
            buffer = ByteBuffer.allocate((int) arguments.number("batch-bytes", 16_384));
        }

        MemoryRecords nextBatch(long recordsMax) {
            buffer.clear();
            MemoryRecordsBuilder batch = MemoryRecords.builder(buffer, compression, TimestampType.CREATE_TIME, 0L);
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
        Random random = new Random(arguments.number("seed", 0) * 1_000_003L + dir.getName().hashCode());
        SetTime time = new SetTime(arguments.number("now", FIRST_TIMESTAMP_MS));
        Opened opened = open(dir, arguments, Map.of(
            "segment.bytes", String.valueOf(8_192 + random.nextInt(24_576)),
            "index.interval.bytes", String.valueOf(64 << random.nextInt(7))), time);
        Workload workload = new Workload(opened.log(), random, time, arguments);
        workload.append((int) arguments.number("steps", 80 + random.nextInt(160)));
        opened.log().updateHighWatermark(opened.log().logEndOffset());
        Generated generated = new Generated("generated", dir.getPath(), workload.records, opened.log().size(),
            opened.log().numberOfSegments(), time.milliseconds());
        closeAsBroker(opened);
        print(generated);
    }

    /** A client of the log that may or may not be idempotent or transactional. */
    private static final class Client {
        private final long producerId;
        private final boolean transactional;
        private short epoch = 0;
        private int nextSequence = 0;
        private boolean inTransaction = false;

        Client(long producerId, boolean transactional) {
            this.producerId = producerId;
            this.transactional = transactional;
        }

        /** Goes on where a producer known to the log stands. */
        Client(ProducerStateEntry state, boolean transactional) {
            this(state.producerId(), transactional || state.currentTxnFirstOffset().isPresent());
            epoch = state.producerEpoch();
            nextSequence = lastSequence(state) + 1;
            inTransaction = state.currentTxnFirstOffset().isPresent();
        }

        boolean idempotent() {
            return producerId != RecordBatch.NO_PRODUCER_ID;
        }
    }

    /** Random appends by several clients; the same random source on the same log gives the same records. */
    private static final class Workload {
        private static final int SEGMENTS_MIN = 4;
        private static final int KEYS_MAX = 30;

        private final UnifiedLog log;
        private final Random random;
        private final List<Client> clients = new ArrayList<>();
        private final List<String> codecs;
        private final boolean markersBumpEpoch; // transaction version 2, KIP-890
        private final SetTime time;
        private final RandomRecords drawn;
        private int leaderEpoch;
        private long records = 0;

        Workload(UnifiedLog log, Random random, SetTime time, Arguments arguments) throws IOException {
            this.log = log;
            this.random = random;
            this.time = time;
            codecs = arguments.has("codec") ? arguments.all("codec") : CODECS;
            leaderEpoch = log.latestEpoch().orElse(0);
            for (LogSegment segment : log.logSegments()) { // largestTimestamp() of an empty one is its file's time
                time.milliseconds = Math.max(time.milliseconds, segment.largestRecordTimestamp().orElse(0) + 1_000);
            }
            markersBumpEpoch = random.nextBoolean();
            addClients(arguments.has("no-transactions"));
            long firstKey = arguments.number("first-key", -1);
            drawn = firstKey < 0 ? new RandomRecords(random, KEYS_MAX, arguments.has("unkeyed"))
                : new RandomRecords(random, KEYS_MAX, firstKey);
        }

        private void addClients(boolean withoutTransactions) {
            clients.add(new Client(RecordBatch.NO_PRODUCER_ID, false));
            log.producerStateManager().activeProducers().values().stream()
                .sorted(Comparator.comparingLong(ProducerStateEntry::producerId))
                .forEach(state -> clients.add(new Client(state, random.nextBoolean() && !withoutTransactions)));
            long firstProducerId = 1_000 + log.logEndOffset(); // not known to a log that already has records
            int producers = 2 + random.nextInt(4);
            for (int i = 0; i < producers; i++) {
                boolean transactional = i == 0 || random.nextBoolean();
                clients.add(new Client(firstProducerId + i, transactional && !withoutTransactions));
            }
        }

        void append(int steps) throws IOException {
            for (int taken = 0; taken < steps || log.numberOfSegments() < SEGMENTS_MIN; taken++) {
                step();
                time.milliseconds += random.nextInt(60_000);
            }
            if (random.nextBoolean()) {
                for (Client client : openTransactions()) {
                    endTransaction(client);
                }
            }
        }

        private void step() throws IOException {
            int die = random.nextInt(100);
            if (die < 3) {
                leaderEpoch += 1 + random.nextInt(2);
                log.assignEpochStartOffset(leaderEpoch, log.logEndOffset());
            } else if (die < 6) {
                log.roll();
            } else if (die < 28 && !openTransactions().isEmpty()) {
                endTransaction(drawn.oneOf(openTransactions()));
            } else {
                appendBatch(drawn.oneOf(clients));
            }
        }

        private List<Client> openTransactions() {
            return clients.stream().filter(client -> client.inTransaction).toList();
        }

        private void endTransaction(Client client) throws IOException {
            if (markersBumpEpoch) {
                bumpEpoch(client);
            }
            ControlRecordType type = random.nextInt(5) < 3 ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(time.milliseconds, client.producerId, client.epoch,
                new EndTransactionMarker(type, leaderEpoch));
            log.appendAsLeader(marker, leaderEpoch, AppendOrigin.COORDINATOR, RequestLocal.noCaching(),
                VerificationGuard.SENTINEL, (short) (markersBumpEpoch ? 2 : 1));
            client.inTransaction = false;
            if (random.nextInt(5) == 0) {
                bumpEpoch(client);
            }
        }

        private static void bumpEpoch(Client client) {
            client.epoch++;
            client.nextSequence = 0;
        }

        private void appendBatch(Client client) throws IOException {
            int count = 1 + random.nextInt(8);
            Compression compression = Compression.of(drawn.oneOf(codecs)).build();
            MemoryRecordsBuilder batch = MemoryRecords.builder(ByteBuffer.allocate(16_384), RecordBatch.MAGIC_VALUE_V2,
                compression, TimestampType.CREATE_TIME, 0L, RecordBatch.NO_TIMESTAMP, client.producerId,
                client.idempotent() ? client.epoch : RecordBatch.NO_PRODUCER_EPOCH,
                client.idempotent() ? client.nextSequence : RecordBatch.NO_SEQUENCE, client.transactional, leaderEpoch);
            for (int i = 0; i < count; i++) {
                batch.append(time.milliseconds - random.nextInt(1_000), drawn.key(), drawn.value(), drawn.headers());
            }
            log.appendAsLeader(batch.build(), leaderEpoch);
            client.nextSequence += count;
            client.inTransaction = client.transactional;
            records += count;
        }
    }

    // ---- small parts -----------------------------------------------------------------------------------------------

    private static Long boxed(OptionalLong value) {
        return value.isPresent() ? value.getAsLong() : null;
    }

    /** Without threads of its own. */
    private static final class DeferredScheduler extends DeferredTasks implements Scheduler {
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
