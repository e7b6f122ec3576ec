import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Random;

/** Drawn or consecutive keys; values are hexadecimal noise that compresses about two to one. */
final class GeneratedRecords {
    private static final int POOL_BYTES = 1 << 22;
    private static final int KEY_DIGITS = 12;

    private final Random random;
    private final byte[] pool = new byte[POOL_BYTES];
    private final byte[] key = "key-000000000000".getBytes(StandardCharsets.US_ASCII);
    private final int firstKey;
    private final int keys;
    private final boolean inOrder;
    private final int valueBytes;

    GeneratedRecords(Conversation.Arguments arguments) {
        random = new Random(arguments.number("seed", 0));
        firstKey = (int) arguments.number("first-key", 0);
        keys = (int) arguments.number("keys", 1_000_000);
        inOrder = arguments.has("in-order");
        valueBytes = (int) arguments.number("value-bytes", 100);
        byte[] digits = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
        for (int i = 0; i < POOL_BYTES; i++) {
            pool[i] = digits[random.nextInt(digits.length)];
        }
    }

    /** The key of the record with this number; its bytes change with the next one. */
    ByteBuffer key(long record) {
        int number = firstKey + (inOrder ? (int) (record % keys) : random.nextInt(keys));
        for (int digit = 1; digit <= KEY_DIGITS; digit++) {
            key[key.length - digit] = (byte) ('0' + number % 10);
            number /= 10;
        }
        return lastKey();
    }

    ByteBuffer lastKey() {
        return ByteBuffer.wrap(key);
    }

    /** A buffer of its own: Kafka 2.8 takes a buffer's limit for the bytes left in it. */
    ByteBuffer value() {
        return ByteBuffer.wrap(pool, random.nextInt(POOL_BYTES - valueBytes), valueBytes).slice();
    }
}
