import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.yaml.snakeyaml.Yaml;

/**
 * Redisson's {@code RLock} on one server or behind sentinels, {@code RedissonRedLock} on several, with
 * their defaults and the lease as the watchdog's timeout. {@code fenced} as argument: {@code RFencedLock},
 * on one server.
 *
 * <p>A worker of the lab, by the lines of docs/lab/WORKERS.md. The watchdog renews and tells nothing, so
 * there is no loss signal and no validity; {@code check} asks the server (isHeldByCurrentThread).
 */
public class RedissonWorker {
    static final List<RedissonClient> clients = new ArrayList<>();
    static final Map<Long, Hold> holds = new ConcurrentHashMap<>();
    static boolean fenced;

    /** A hold belongs to a thread. */
    static class Hold {
        final ExecutorService thread = Executors.newSingleThreadExecutor();
        RLock lock;
    }

    /**
     * CLOCK_BOOTTIME. System.nanoTime is CLOCK_MONOTONIC, which lacks the time that the machine was
     * suspended. A pause between the two readings makes the difference smaller, so the largest counts.
     */
    static long suspended() throws Exception {
        long ahead = 0;
        for (int i = 0; i < 5; i++) {
            String uptime = Files.readString(Path.of("/proc/uptime")).split(" ")[0];
            ahead = Math.max(ahead, (long) (Double.parseDouble(uptime) * 1e9) - System.nanoTime());
        }
        return ahead < 50_000_000 ? 0 : ahead;
    }

    static final long SUSPENDED;

    static {
        try {
            SUSPENDED = suspended();
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static long clock() {
        return System.nanoTime() + SUSPENDED;
    }

    static synchronized void say(Map<String, Object> line) {
        System.out.println(json(line));
        System.out.flush();
    }

    static String json(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(e -> json(e.getKey()) + ":" + json(e.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(RedissonWorker::json).collect(Collectors.joining(",", "[", "]"));
        }
        if (value instanceof Number || value instanceof Boolean) return value.toString();
        String text = String.valueOf(value).replaceAll("\\p{Cntrl}", " ");
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    static Map<String, Object> line(String line, long id, long asked) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("line", line);
        fields.put("id", id);
        fields.put("asked_ns", asked);
        fields.put("heard_ns", clock());
        return fields;
    }

    static void hello(Map<String, Object> order) {
        List<?> servers = (List<?>) order.get("servers");
        if (order.get("topology").equals("sentinel") && !servers.isEmpty()) {
            Config config = config(order);
            config.useSentinelServers().setMasterName((String) order.get("master"))
                .addSentinelAddress(servers.toArray(String[]::new));
            clients.add(Redisson.create(config));
        } else {
            for (Object server : servers) {
                Config config = config(order);
                config.useSingleServer().setAddress((String) server);
                clients.add(Redisson.create(config));
            }
        }
        Map<String, Object> hello = new LinkedHashMap<>();
        hello.put("line", "hello");
        hello.put("protocol", 1);
        hello.put("library", fenced ? "Redisson RFencedLock" : "Redisson RLock");
        hello.put("version", String.valueOf(Redisson.class.getPackage().getImplementationVersion()));
        hello.put("topologies", fenced ? List.of("one", "sentinel") : List.of("one", "quorum", "sentinel"));
        hello.put("kinds", List.of("lock"));
        hello.put("features", fenced ? List.of("renewal", "tokens") : List.of("renewal"));
        hello.put("options", Map.of("lockWatchdogTimeout", "the lease", "lazyInitialization", true));
        say(hello);
    }

    static Config config(Map<String, Object> order) {
        Config config = new Config();
        config.setLockWatchdogTimeout(number(order, "lease_ms"));
        // A quorum need not be reached as a whole.
        config.setLazyInitialization(true);
        return config;
    }

    static long number(Map<String, Object> order, String field) {
        return ((Number) order.get(field)).longValue();
    }

    static RLock lock(String name) {
        if (fenced) return clients.get(0).getFencedLock(name);
        if (clients.size() == 1) return clients.get(0).getLock(name);
        return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
    }

    static void acquire(Map<String, Object> order, Hold hold, long id) {
        long asked = clock();
        try {
            hold.lock = lock((String) ((List<?>) order.get("names")).get(0));
            boolean got = true;
            if (order.containsKey("wait_ms")) got = hold.lock.tryLock(number(order, "wait_ms"), TimeUnit.MILLISECONDS);
            else hold.lock.lock();
            Map<String, Object> answer = line(got ? "granted" : "refused", id, asked);
            if (!got) refuse(answer, true, "another client holds it", hold, id);
            else if (fenced) answer.put("token", ((RFencedLock) hold.lock).getToken());
            say(answer);
        } catch (Exception e) {
            Map<String, Object> refused = line("refused", id, asked);
            refuse(refused, false, e.toString(), hold, id);
            say(refused);
        }
    }

    static void refuse(Map<String, Object> line, boolean held, String why, Hold hold, long id) {
        line.put("held", held);
        line.put("why", why);
        holds.remove(id);
        hold.thread.shutdown();
    }

    static void check(Hold hold, long id) {
        long asked = clock();
        boolean valid;
        try {
            // RedissonRedLock does not tell: then the holder believes.
            valid = hold.lock instanceof RedissonRedLock || hold.lock.isHeldByCurrentThread();
        } catch (Exception e) {
            valid = false;
        }
        Map<String, Object> checked = line("checked", id, asked);
        checked.put("valid", valid);
        say(checked);
    }

    static void release(Hold hold, long id) {
        long asked = clock();
        String why = "";
        try {
            hold.lock.unlock();
        } catch (Exception e) {
            why = e.toString();
        }
        Map<String, Object> released = line("released", id, asked);
        released.put("ok", why.isEmpty());
        released.put("why", why);
        say(released);
        holds.remove(id);
        hold.thread.shutdown();
    }

    public static void main(String[] args) throws Exception {
        fenced = args.length > 0 && args[0].equals("fenced");
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            Map<String, Object> order = new Yaml().load(lines.nextLine()); // all JSON is YAML
            long id = order.containsKey("id") ? number(order, "id") : 0;
            switch ((String) order.get("order")) {
                case "hello" -> hello(order);
                case "acquire" -> {
                    Hold hold = new Hold();
                    holds.put(id, hold);
                    hold.thread.submit(() -> acquire(order, hold, id));
                }
                case "check", "release" -> {
                    Hold hold = holds.get(id);
                    boolean checks = order.get("order").equals("check");
                    hold.thread.submit(checks ? () -> check(hold, id) : () -> release(hold, id));
                }
                default -> {}
            }
        }
        Runtime.getRuntime().halt(0); // the lab has ended: give nothing back
    }
}
