import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;

/** Kafka's own serialization of its messages: {@code encode --class C --version V --json J...} gives a line for each. */
public final class Messages extends Conversation {
    private final ObjectMapper json;

    private Messages(ObjectMapper json) {
        super(json);
        this.json = json;
    }

    public static void main(String[] arguments) throws Exception {
        new Messages(new ObjectMapper()).hold(arguments);
    }

    record Encoded(String kind, String bytes, JsonNode json) { }

    @Override
    void run(Arguments arguments) throws Exception {
        String name = arguments.text("class", null);
        short version = (short) arguments.number("version", 0);
        Class<?> converter = Class.forName(name + "JsonConverter");
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        Method write = converter.getMethod("write", Class.forName(name), short.class);
        for (String text : arguments.all("json")) {
            Message message = (Message) read.invoke(null, json.readTree(text), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            print(new Encoded("encoded", hex(buffer.array()), (JsonNode) write.invoke(null, message, version)));
        }
    }
}
