import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/**
 * Kafka's own consumer and Kafka Streams. Topics have one partition.
 *
 * <p>Each reader goes on until its position is the end of the partition: one that never comes there fails.
 */
public final class JavaClients extends Conversation {
    private static final long MILLIS_MAX = 240_000;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final String APPLICATION = "tally";
    private static final String COUNTS = "counted";
    private static final String ROWS = "rows";

    private final Map<String, Follower> followers = new HashMap<>();
    private KafkaStreams streams;

    private JavaClients() {
        super(new ObjectMapper().setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE));
    }

    public static void main(String[] arguments) throws Exception {
        new JavaClients().hold(arguments);
        System.exit(0); // whatever still runs
    }

    record Count(String kind, String key, long count) { }

    record Row(String kind, String key) { }

    @Override
    void run(Arguments arguments) throws Exception {
        String bootstrap = arguments.text("bootstrap", null);
        TopicPartition partition = new TopicPartition(arguments.text("topic", null), 0);
        String isolation = arguments.text("isolation", "read_committed");
        String name = partition.topic() + " " + isolation;
        switch (arguments.command()) {
            case "consume" -> printAll(consumed(bootstrap, partition, isolation, null));
            case "resume" -> printAll(consumed(bootstrap, partition, isolation, arguments.text("group", null)));
            case "follow" -> {
                Follower follower = new Follower(consumer(bootstrap, isolation, null), partition);
                followers.put(name, follower);
                follower.start();
            }
            case "followed" -> printAll(followers.remove(name).all(end(bootstrap, partition, isolation)));
            case "start-streams" -> startStreams(bootstrap, partition.topic(), arguments);
            case "await-streams" -> awaitStreams(bootstrap, partition);
            case "stop-streams" -> stopStreams(bootstrap, partition);
            default -> throw new IllegalArgumentException(arguments.command());
        }
    }

    private void printAll(List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            print(recordLine(record.offset(), record.timestamp(), -1, wrapped(record.key()), wrapped(record.value()),
                record.headers().toArray()));
        }
    }

    private static ByteBuffer wrapped(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String bootstrap, String isolation, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("isolation.level", isolation);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "none");
        settings.put("fetch.max.wait.ms", "100");
        if (group != null) {
            settings.put("group.id", group);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static long end(String bootstrap, TopicPartition partition, String isolation) throws Exception {
        ListOffsetsOptions options = new ListOffsetsOptions(
            "read_committed".equals(isolation) ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            return admin.listOffsets(Map.of(partition, OffsetSpec.latest()), options).partitionResult(partition)
                .get(MILLIS_MAX, TimeUnit.MILLISECONDS).offset();
        }
    }

    /** Reads from the begin, or from where a group stands, to the end; a group commits that. */
    private static List<ConsumerRecord<byte[], byte[]>> consumed(String bootstrap, TopicPartition partition,
                                                                 String isolation, String group) throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long end = end(bootstrap, partition, isolation);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(bootstrap, isolation, group)) {
            if (group == null) {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
            } else {
                consumer.subscribe(List.of(partition.topic()));
            }
            long deadline = System.currentTimeMillis() + MILLIS_MAX;
            while (!consumer.assignment().contains(partition) || consumer.position(partition) < end) {
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("not at the end, " + end + ", of " + consumer.assignment());
                }
                consumer.poll(POLL).forEach(records::add);
            }
            if (group != null) {
                consumer.commitSync(Map.of(partition, new OffsetAndMetadata(consumer.position(partition))));
            }
        }
        return records;
    }

    private static void await(String what, Condition condition) throws Exception {
        long deadline = System.currentTimeMillis() + MILLIS_MAX;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("waited in vain: " + what);
            }
            Thread.sleep(POLL.toMillis());
        }
    }

    interface Condition {
        boolean holds() throws Exception;
    }

    /** A consumer that lives while brokers come and go. */
    private static final class Follower extends Thread {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final TopicPartition partition;
        private final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        private volatile long position = -1;
        private volatile boolean ends;
        private volatile RuntimeException failure;

        Follower(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition) {
            this.consumer = consumer;
            this.partition = partition;
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.assign(List.of(partition));
                consumer.seekToBeginning(List.of(partition));
                while (!ends) {
                    consumer.poll(POLL).forEach(records::add);
                    position = consumer.position(partition);
                }
            } catch (RuntimeException error) {
                failure = error;
            }
        }

        List<ConsumerRecord<byte[], byte[]>> all(long end) throws Exception {
            try {
                await("the end, " + end + ", of " + partition, () -> position >= end || failure != null);
            } finally {
                ends = true;
                join();
            }
            if (failure != null) {
                throw failure;
            }
            return records;
        }
    }

    private void startStreams(String bootstrap, String topic, Arguments arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, byte[]> consumed = Consumed.with(Serdes.String(), Serdes.ByteArray());
        builder.globalTable(arguments.text("table", null), consumed,
            Materialized.as(Stores.inMemoryKeyValueStore(ROWS)));
        builder.stream(topic, consumed).groupByKey()
            .count(Materialized.as(Stores.inMemoryKeyValueStore(COUNTS)))
            .toStream().to(arguments.text("output", null), Produced.with(Serdes.String(), Serdes.Long()));
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", APPLICATION);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("replication.factor", "3");
        settings.put("state.dir", arguments.text("state", null));
        settings.put("auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.ByteArraySerde.class);
        streams = new KafkaStreams(builder.build(), settings);
        streams.start();
        await("Streams runs", () -> streams.state() == KafkaStreams.State.RUNNING);
    }

    private void awaitStreams(String bootstrap, TopicPartition partition) throws Exception {
        long end = end(bootstrap, partition, "read_committed");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            await("Streams at " + end, () -> {
                OffsetAndMetadata found = admin.listConsumerGroupOffsets(APPLICATION)
                    .partitionsToOffsetAndMetadata().get(MILLIS_MAX, TimeUnit.MILLISECONDS).get(partition);
                return found != null && found.offset() >= end;
            });
        }
    }

    private void stopStreams(String bootstrap, TopicPartition partition) throws Exception {
        awaitStreams(bootstrap, partition);
        try (KeyValueIterator<String, Long> all = store(COUNTS, QueryableStoreTypes.<String, Long>keyValueStore())) {
            while (all.hasNext()) {
                var entry = all.next();
                print(new Count("count", entry.key, entry.value));
            }
        }
        try (KeyValueIterator<String, byte[]> all = store(ROWS, QueryableStoreTypes.<String, byte[]>keyValueStore())) {
            while (all.hasNext()) {
                print(new Row("row", all.next().key));
            }
        }
        streams.close(Duration.ofMillis(MILLIS_MAX));
    }

    private <V> KeyValueIterator<String, V> store(String name,
                                                  QueryableStoreType<ReadOnlyKeyValueStore<String, V>> type) {
        return streams.store(StoreQueryParameters.fromNameAndType(name, type)).all();
    }
}
