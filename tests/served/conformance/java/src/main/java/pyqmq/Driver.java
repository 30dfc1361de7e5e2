package pyqmq;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
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
    private static final PrintStream OUT = new PrintStream(System.out, true);
    private static MessageProducerProvider producer;
    private static MessageConsumerProvider consumer;
    private static final ExecutorService HANDLERS = Executors.newFixedThreadPool(8);

    public static void main(String[] args) throws Exception {
        String meta = args[0];
        final String clientId = args[1];
        ClientIdProvider ids = new ClientIdProvider() {
            @Override
            public String get() {
                return clientId;
            }
        };
        producer = new MessageProducerProvider();
        producer.setAppCode("conformance");
        producer.setMetaServer(meta);
        producer.setClientIdProvider(ids);
        if (args.length > 2) {
            producer.setSendTimeoutMillis(Long.parseLong(args[2]));
        }
        producer.init();
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
                case "pull":
                    pull(command);
                    break;
                default:
                    System.exit(0);
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String event, JsonObject facts) {
        facts.addProperty("event", event);
        OUT.println(facts);
    }

    private static void send(JsonObject command) {
        int count = command.has("count") ? command.get("count").getAsInt() : 1;
        for (int i = 0; i < count; i++) {
            Message message = producer.generateMessage(command.get("subject").getAsString());
            message.setProperty("number", i);
            if (command.has("properties")) {
                for (Map.Entry<String, JsonElement> entry : command.getAsJsonObject("properties").entrySet()) {
                    message.setProperty(entry.getKey(), entry.getValue().getAsString());
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
            producer.sendMessage(message, new MessageSendStateListener() {
                @Override
                public void onSuccess(Message sent) {
                    outcome("sent", sent);
                }

                @Override
                public void onFailed(Message failed) {
                    outcome("failed", failed);
                }
            });
        }
    }

    private static void outcome(String event, Message message) {
        JsonObject facts = new JsonObject();
        facts.addProperty("id", message.getMessageId());
        say(event, facts);
    }

    private static JsonArray array(JsonObject command, String name) {
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
        consumer.addListener(command.get("subject").getAsString(), group, message -> {
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
        JsonObject facts = new JsonObject();
        facts.addProperty("name", name);
        say("listening", facts);
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
