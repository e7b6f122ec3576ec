import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** Keys, values and headers of random records; the same random source gives the same. */
final class RandomRecords {
    private final Random random;
    private final List<byte[]> keys = new ArrayList<>();

    RandomRecords(Random random, int keysMax, boolean unkeyed) {
        this.random = random;
        if (unkeyed) {
            keys.add(null);
        }
        keys.add(new byte[0]);
        keys.add("long".repeat(75).getBytes(StandardCharsets.US_ASCII));
        int plainKeys = 2 + random.nextInt(keysMax);
        for (int number = 0; number < plainKeys; number++) {
            keys.add(("k" + number).getBytes(StandardCharsets.US_ASCII));
        }
    }

    /** Plain keys alone, from a number on: logs whose segments have keys of their own. */
    RandomRecords(Random random, int keysMax, long firstKey) {
        this.random = random;
        int plainKeys = 2 + random.nextInt(keysMax);
        for (long number = firstKey; number < firstKey + plainKeys; number++) {
            keys.add(("k" + number).getBytes(StandardCharsets.US_ASCII));
        }
    }

    byte[] key() {
        return oneOf(keys);
    }

    byte[] value() {
        int die = random.nextInt(20);
        if (die < 3) {
            return null;
        }
        byte[] value = new byte[die < 4 ? 0 : random.nextInt(400)];
        if (random.nextBoolean()) {
            random.nextBytes(value);
        }
        return value;
    }

    Header[] headers() {
        Header[] headers = new Header[random.nextInt(4) == 0 ? 1 + random.nextInt(2) : 0];
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader("h" + i, random.nextInt(3) == 0 ? null : new byte[random.nextInt(6)]);
        }
        return headers;
    }

    <T> T oneOf(List<T> choices) {
        return choices.get(random.nextInt(choices.size()));
    }
}
