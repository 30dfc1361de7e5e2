package pyqmq;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UnsupportedEncodingException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import qunar.tc.qmq.ListenerHolder;
import qunar.tc.qmq.Message;
import qunar.tc.qmq.MessageSendStateListener;
import qunar.tc.qmq.NeedRetryException;
import qunar.tc.qmq.PullConsumer;
import qunar.tc.qmq.SubscribeParam;
import qunar.tc.qmq.TagType;
import qunar.tc.qmq.common.ClientIdProvider;
import qunar.tc.qmq.consumer.MessageConsumerProvider;
import qunar.tc.qmq.producer.MessageProducerProvider;

/** The official client, told by JSON lines on standard input what to do; says on standard output what happened. */
public final class Driver {
    private static final int LARGE_PRINTED_CHARS = 100_000;
    private static final PrintStream OUT = utf8(System.out);
    /** Messages of listeners with "retain", by name of the listener and message ID. */
    static final Map<String, Message> RETAINED = new ConcurrentHashMap<>();
    private static final Map<String, ListenerHolder> LISTENERS = new ConcurrentHashMap<>();
    static final MessageSendStateListener OUTCOME = new MessageSendStateListener() {
        @Override
        public void onSuccess(Message sent) {
            outcome("sent", sent);
        }

        @Override
        public void onFailed(Message failed) {
            outcome("failed", failed);
        }
    };
    static MessageProducerProvider producer;
    private static MessageConsumerProvider consumer;
    private static final ExecutorService HANDLERS = Executors.newFixedThreadPool(8);

    public static void main(String[] args) {
        try {
            serve(args);
        } catch (Exception e) {
            // Threads of the client would keep the process.
            e.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private static void serve(String[] args) throws Exception {
        String meta = args[0];
        final String clientId = args[1];
        ClientIdProvider ids = new ClientIdProvider() {
            @Override
            public String get() {
                return clientId;
            }
        };
        if (args.length > 2) {
            setSendTimeout(Long.parseLong(args[2]));
        }
        producer = newProducer(meta, ids);
        consumer = new MessageConsumerProvider();
        consumer.setAppCode("conformance");
        consumer.setMetaServer(meta);
        consumer.setClientIdProvider(ids);
        consumer.init();
        say("ready", new JsonObject());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            JsonObject command = new JsonParser().parse(line).getAsJsonObject();
            switch (command.get("do").getAsString()) {
                case "send":
                    send(command);
                    break;
                case "listen":
                    listen(command);
                    break;
                case "stopListening":
                    LISTENERS.get(command.get("name").getAsString()).stopListen();
                    break;
                case "read":
                    read(command);
                    break;
                case "pull":
                    pull(command);
                    break;
                case "openOutbox":
                    Outbox.open(command, newProducer(meta, ids));
                    break;
                case "transaction":
                    Outbox.of(command).run(command);
                    break;
                case "watch":
                    Outbox.of(command).watch(command);
                    break;
                default:
                    return;
            }
        }
    }

    private static MessageProducerProvider newProducer(String meta, ClientIdProvider ids) {
        MessageProducerProvider made = new MessageProducerProvider();
        made.setAppCode("conformance");
        made.setMetaServer(meta);
        made.setClientIdProvider(ids);
        made.init();
        return made;
    }

    private static void setSendTimeout(long milliseconds) throws ReflectiveOperationException {
        try {
            MessageProducerProvider.class.getMethod("setSendTimeoutMillis", long.class).invoke(new MessageProducerProvider(), milliseconds);
        } catch (NoSuchMethodException e) {
            // Release 1.1.3 has the setting without a setter.
            Class<?> settings = Class.forName("qunar.tc.qmq.producer.ConfigCenter");
            Field field = settings.getDeclaredField("sendTimeoutMillis");
            field.setAccessible(true);
            field.setLong(settings.getMethod("getInstance").invoke(null), milliseconds);
        }
    }

    private static PrintStream utf8(PrintStream out) {
        try {
            return new PrintStream(out, true, "UTF-8");
        } catch (UnsupportedEncodingException e) {
            throw new IllegalStateException(e);
        }
    }

    static synchronized void say(String event, JsonObject facts) {
        facts.addProperty("event", event);
        OUT.println(facts);
    }

    private static void send(JsonObject command) {
        int count = command.has("count") ? command.get("count").getAsInt() : 1;
        for (int i = 0; i < count; i++) {
            producer.sendMessage(build(command, i), OUTCOME);
        }
    }

    /** The message that a command describes. */
    static Message build(JsonObject command, int number) {
        Message message = producer.generateMessage(command.get("subject").getAsString());
        message.setProperty("number", number);
        if (command.has("properties")) {
            for (Map.Entry<String, JsonElement> entry : command.getAsJsonObject("properties").entrySet()) {
                message.setProperty(entry.getKey(), entry.getValue().getAsString());
            }
        }
        if (command.has("typed")) {
            for (Map.Entry<String, JsonElement> entry : command.getAsJsonObject("typed").entrySet()) {
                JsonArray typed = entry.getValue().getAsJsonArray();
                set(message, entry.getKey(), typed.get(0).getAsString(), typed.get(1).getAsString());
            }
        }
        if (command.has("large")) {
            message.setLargeString("large", command.get("large").getAsString());
        }
        if (command.has("largeChars")) {
            char[] chars = new char[command.get("largeChars").getAsInt()];
            java.util.Arrays.fill(chars, 'x');
            message.setLargeString("large", new String(chars));
        }
        for (JsonElement tag : array(command, "tags")) {
            message.addTag(tag.getAsString());
        }
        if (command.has("delayMs")) {
            message.setDelayTime(command.get("delayMs").getAsLong(), TimeUnit.MILLISECONDS);
        }
        if (command.has("maxRetry")) {
            message.setMaxRetryNum(command.get("maxRetry").getAsInt());
        }
        return message;
    }

    /** Calls the setter of a type with the value that a text stands for. */
    private static void set(Message message, String key, String type, String text) {
        switch (type) {
            case "int":
                message.setProperty(key, Integer.parseInt(text));
                break;
            case "long":
                message.setProperty(key, Long.parseLong(text));
                break;
            case "float":
                message.setProperty(key, Float.parseFloat(text));
                break;
            case "double":
                message.setProperty(key, Double.parseDouble(text));
                break;
            case "boolean":
                message.setProperty(key, Boolean.parseBoolean(text));
                break;
            case "date":
                message.setProperty(key, new Date(Long.parseLong(text)));
                break;
            case "string":
                message.setProperty(key, text);
                break;
            case "largeString":
                message.setLargeString(key, text);
                break;
            default:
                throw new IllegalArgumentException(type);
        }
    }

    private static void outcome(String event, Message message) {
        JsonObject facts = new JsonObject();
        facts.addProperty("id", message.getMessageId());
        say(event, facts);
    }

    static JsonArray array(JsonObject command, String name) {
        return command.has(name) ? command.getAsJsonArray(name) : new JsonArray();
    }

    private static void listen(JsonObject command) {
        final int failures = command.has("fail") ? command.get("fail").getAsInt() : 0;
        final String name = command.has("name") ? command.get("name").getAsString() : "";
        final long retryInMs = command.has("retryInMs") ? command.get("retryInMs").getAsLong() : 0;
        final long slow = command.has("slowMs") ? command.get("slowMs").getAsLong() : 0;
        Set<String> tags = new HashSet<>();
        for (JsonElement tag : array(command, "tags")) {
            tags.add(tag.getAsString());
        }
        SubscribeParam.SubscribeParamBuilder param = new SubscribeParam.SubscribeParamBuilder();
        param.setTags(tags);
        param.setTagType(tags.isEmpty() ? TagType.NO_TAG : TagType.valueOf(command.get("tagType").getAsString()));
        param.setBroadcast(command.has("broadcast") && command.get("broadcast").getAsBoolean());
        param.setConsumeMostOnce(command.has("once") && command.get("once").getAsBoolean());
        final String group = command.has("group") ? command.get("group").getAsString() : "";
        final boolean retain = command.has("retain") && command.get("retain").getAsBoolean();
        ListenerHolder listener = consumer.addListener(command.get("subject").getAsString(), group, message -> {
            if (retain) {
                RETAINED.put(name + " " + message.getMessageId(), message);
            }
            received("message", name, message);
            if (slow > 0) {
                try {
                    Thread.sleep(slow);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
            if (retryInMs > 0 && message.times() == 1) {
                throw new NeedRetryException(new Date(System.currentTimeMillis() + retryInMs), "told to come later");
            }
            if (message.times() <= failures) {
                throw new IllegalStateException("told to fail");
            }
        }, HANDLERS, param.create());
        LISTENERS.put(name, listener);
        JsonObject facts = new JsonObject();
        facts.addProperty("name", name);
        say("listening", facts);
    }

    /** Calls a getter of a retained message, or decodes its text; reports what that returns or raises. */
    private static void read(JsonObject command) throws ReflectiveOperationException {
        Message message = RETAINED.get(command.get("listener").getAsString() + " " + command.get("id").getAsString());
        String method = command.get("method").getAsString();
        JsonObject facts = new JsonObject();
        facts.addProperty("name", command.get("name").getAsString());
        String key = command.get("key").getAsString();
        try {
            facts.add("value", value(message, method, key));
        } catch (InvocationTargetException e) {
            facts.addProperty("raised", e.getCause().getClass().getSimpleName());
        }
        say("read", facts);
    }

    private static JsonElement value(Message message, String method, String key) throws ReflectiveOperationException {
        switch (method) {
            case "getAttrs":
                JsonObject attributes = new JsonObject();
                for (String name : message.getAttrs().keySet()) {
                    attributes.addProperty(name, message.getStringProperty(name));
                }
                return attributes;
            case "parseJson":
                return new JsonParser().parse(message.getLargeString(key));
            case "decodeBase64":
                JsonArray bytes = new JsonArray();
                for (byte each : Base64.getDecoder().decode(message.getLargeString(key))) {
                    bytes.add(each & 0xff);
                }
                return bytes;
            default:
                return json(Message.class.getMethod(method, String.class).invoke(message, key));
        }
    }

    private static JsonElement json(Object value) {
        if (value == null) {
            return JsonNull.INSTANCE;
        }
        if (value instanceof Boolean) {
            return new JsonPrimitive((Boolean) value);
        }
        if (value instanceof Date) {
            return new JsonPrimitive(((Date) value).getTime());
        }
        return value instanceof Number ? new JsonPrimitive((Number) value) : new JsonPrimitive((String) value);
    }

    private static void received(String event, String name, Message message) {
        JsonObject facts = new JsonObject();
        facts.addProperty("name", name);
        facts.addProperty("id", message.getMessageId());
        facts.addProperty("subject", message.getSubject());
        facts.addProperty("times", message.times());
        facts.addProperty("atMs", System.currentTimeMillis());
        facts.addProperty("number", message.getStringProperty("number"));
        facts.addProperty("data", message.getStringProperty("data"));
        String large = message.getLargeString("large");
        if (large != null && large.length() <= LARGE_PRINTED_CHARS) {
            facts.addProperty("large", large);
        } else if (large != null) {
            facts.addProperty("largeChars", large.length());
        }
        JsonArray tags = new JsonArray();
        for (String tag : message.getTags()) {
            tags.add(tag);
        }
        facts.add("tags", tags);
        say(event, facts);
    }

    private static void pull(JsonObject command) {
        PullConsumer puller = consumer.getOrCreatePullConsumer(
                command.get("subject").getAsString(), command.get("group").getAsString(), false);
        puller.online();
        List<Message> messages = puller.pull(command.get("size").getAsInt(), command.get("timeoutMs").getAsLong());
        boolean ack = !command.has("ack") || command.get("ack").getAsBoolean();
        for (Message message : messages) {
            received("pulledMessage", "", message);
            if (ack) {
                message.ack(1, null);
            }
        }
        JsonObject facts = new JsonObject();
        facts.addProperty("count", messages.size());
        say("pulled", facts);
    }
}
