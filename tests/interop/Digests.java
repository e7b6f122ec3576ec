import org.apache.kafka.common.header.Header;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;

/** One hash for all records of a log. */
final class Digests {
    private Digests() { }

    /** Lengths go in before bytes, so that no two records run into the same input. */
    static void add(long offset, long timestamp, ByteBuffer key, ByteBuffer value, Header[] headers,
                    MessageDigest digest) {
        ByteBuffer fixed = ByteBuffer.allocate(28);
        fixed.putLong(offset).putLong(timestamp);
        fixed.putInt(sizeOf(key)).putInt(sizeOf(value)).putInt(headers.length);
        digest.update(fixed.flip());
        if (key != null) {
            digest.update(key);
        }
        if (value != null) {
            digest.update(value);
        }
        for (Header header : headers) {
            String text = header.value() == null ? "null" : Conversation.hex(header.value());
            digest.update((header.key() + "\0" + text + "\0").getBytes(StandardCharsets.UTF_8));
        }
    }

    private static int sizeOf(ByteBuffer field) {
        return field == null ? -1 : field.remaining();
    }
}
