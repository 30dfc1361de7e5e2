package pyqmq;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TimeZone;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DataSourceTransactionManager;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.springframework.transaction.TransactionStatus;
import org.springframework.transaction.support.TransactionSynchronizationAdapter;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;
import qunar.tc.qmq.Message;
import qunar.tc.qmq.MessageSendStateListener;
import qunar.tc.qmq.base.BaseMessage;
import qunar.tc.qmq.producer.MessageProducerProvider;
import qunar.tc.qmq.producer.tx.DefaultSqlStatementProvider;
import qunar.tc.qmq.producer.tx.spring.SpringTransactionProvider;

/** A table of transactional messages: a program with Spring's transactions that writes it, and the watchdog that sends its rows. */
final class Outbox {
    private static final int WATCHDOG_AGE_MS = 60_000;
    private static final int WATCHDOG_WAIT_SECONDS = 60;
    private static final int INVALID = -2;
    private static final int FAILED = -1;
    private static final Map<String, Outbox> OPENED = new ConcurrentHashMap<>();

    private final String table;
    private final MessageProducerProvider producer;
    private final TransactionTemplate transactions;
    private final JdbcTemplate jdbc;

    private Outbox(DataSource source, String table, MessageProducerProvider producer) {
        this.table = table.isEmpty() ? "qmq_produce.qmq_msg_queue" : table;
        this.producer = producer;
        producer.setTransactionProvider(table.isEmpty()
                ? new SpringTransactionProvider(source)
                : new SpringTransactionProvider(source, new DefaultSqlStatementProvider(table)));
        transactions = new TransactionTemplate(new DataSourceTransactionManager(source));
        jdbc = new JdbcTemplate(source);
    }

    static void open(JsonObject command, MessageProducerProvider producer) {
        DataSource source = new DriverManagerDataSource(command.get("url").getAsString());
        OPENED.put(command.get("outbox").getAsString(), new Outbox(source, command.get("table").getAsString(), producer));
    }

    static Outbox of(JsonObject command) {
        return OPENED.get(command.get("outbox").getAsString());
    }

    /**
     * Sends messages in a transaction that also inserts a row into the table `business`, and ends it: "commit"; "rollback"; "crash", a
     * commit after which the program does nothing any more. With "direct", each message is also sent without a transaction afterwards.
     * "zone" is the time zone of the program.
     */
    void run(JsonObject command) {
        final List<Message> messages = new ArrayList<>();
        for (JsonElement each : Driver.array(command, "messages")) {
            messages.add(Driver.build(each.getAsJsonObject(), messages.size()));
        }
        final String end = command.get("end").getAsString();
        String raised = null;
        TimeZone own = TimeZone.getDefault();
        if (command.has("zone")) {
            TimeZone.setDefault(TimeZone.getTimeZone(command.get("zone").getAsString()));
        }
        try {
            transactions.execute((TransactionStatus status) -> {
                jdbc.update("INSERT INTO business(id) VALUES(?)", command.get("id").getAsInt());
                if (end.equals("crash")) {
                    endBeforeSending();
                }
                for (Message message : messages) {
                    producer.sendMessage(message, Driver.OUTCOME);
                }
                if (end.equals("rollback")) {
                    status.setRollbackOnly();
                }
                return null;
            });
        } catch (RuntimeException e) {
            raised = e.getClass().getSimpleName();
        } finally {
            TimeZone.setDefault(own);
        }
        JsonObject facts = new JsonObject();
        facts.add("raised", new Gson().toJsonTree(raised));
        JsonArray ids = new JsonArray();
        for (Message message : messages) {
            ids.add(message.getMessageId());
        }
        facts.add("ids", ids);
        Driver.say("ended", facts);
        if (command.has("direct")) {
            for (Message message : messages) {
                Driver.producer.sendMessage(message, Driver.OUTCOME);
            }
        }
    }

    /** Spring calls what registers first first, and nothing after an exception. */
    private static void endBeforeSending() {
        TransactionSynchronizationManager.registerSynchronization(new TransactionSynchronizationAdapter() {
            @Override
            public void afterCommit() {
                throw new ProgramEnded();
            }
        });
    }

    private static final class ProgramEnded extends RuntimeException { }

    private static final class Row {
        private final long id;
        private final String content;

        Row(long id, String content) {
            this.id = id;
            this.content = content;
        }
    }

    /** Sends what is due as the watchdog does, which is in no Maven repository: its statements, its Gson and a producer without store. */
    void watch(JsonObject command) throws InterruptedException {
        Date since = new Date(System.currentTimeMillis() - WATCHDOG_AGE_MS);
        List<Row> rows = jdbc.query(
                "SELECT id,content,error,update_time FROM " + table + " WHERE status=0 AND update_time<? ORDER BY id ASC LIMIT 50",
                (found, number) -> new Row(found.getLong("id"), found.getString("content")), since);
        Queue<Long> sent = new ConcurrentLinkedQueue<>();
        CountDownLatch pending = new CountDownLatch(rows.size());
        JsonArray seen = new JsonArray();
        for (Row row : rows) {
            JsonObject facts = new JsonObject();
            facts.addProperty("row", row.id);
            seen.add(facts);
            BaseMessage message = decoded(row.content);
            if (message == null) {
                setError(row.id, INVALID);
                pending.countDown();
                continue;
            }
            describe(message, facts);
            Driver.RETAINED.put(command.get("outbox").getAsString() + " " + message.getMessageId(), message);
            message.setProperty("qmq_sequence", row.id);
            try {
                Driver.producer.sendMessage(message, new MessageSendStateListener() {
                    @Override
                    public void onSuccess(Message done) {
                        sent.add(done.getLongProperty("qmq_sequence"));
                        pending.countDown();
                    }

                    @Override
                    public void onFailed(Message failed) {
                        pending.countDown();
                    }
                });
            } catch (RuntimeException e) {
                setError(row.id, FAILED);
                pending.countDown();
            }
        }
        pending.await(WATCHDOG_WAIT_SECONDS, TimeUnit.SECONDS);
        for (long id : sent) {
            jdbc.update("DELETE FROM " + table + " WHERE id=?", id);
        }
        JsonObject facts = new JsonObject();
        facts.add("rows", seen);
        Driver.say("watched", facts);
    }

    /** The message, or null for what the watchdog does not send. */
    private static BaseMessage decoded(String content) {
        BaseMessage message;
        try {
            message = new Gson().fromJson(content, BaseMessage.class);
        } catch (RuntimeException e) {
            return null;
        }
        boolean isValid = message != null && message.getSubject() != null && !message.getSubject().isEmpty()
                && !message.getSubject().contains("${");
        return isValid ? message : null;
    }

    private void setError(long id, int status) {
        jdbc.update("UPDATE " + table + " SET status=?,error=error+1,update_time=? WHERE id=?",
                status, new Timestamp(System.currentTimeMillis()), id);
    }

    private static void describe(BaseMessage message, JsonObject facts) {
        facts.addProperty("id", message.getMessageId());
        facts.addProperty("subject", message.getSubject());
        facts.addProperty("createdMs", message.getCreatedTime().getTime());
        Date due = message.getScheduleReceiveTime();
        facts.addProperty("dueMs", due == null ? null : due.getTime());
        facts.addProperty("isDurable", message.isDurable());
        facts.add("tags", new Gson().toJsonTree(message.getTags()));
        facts.add("attributes", new Gson().toJsonTree(message.getAttrs()));
    }
}
