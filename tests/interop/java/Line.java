import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson driven by lines (../README.md): {@code java Line HOST:PORT[,HOST:PORT...] WATCHDOG_MS}. WHO is a thread. */
public class Line {
    static List<RedissonClient> clients = new ArrayList<>();
    static long lease;

    static RLock lock(String kind, String name) {
        RedissonClient one = clients.get(0);
        return switch (kind) {
            case "fenced" -> one.getFencedLock(name);
            case "fair" -> one.getFairLock(name);
            case "spin" -> one.getSpinLock(name);
            case "read" -> one.getReadWriteLock(name).readLock();
            case "write" -> one.getReadWriteLock(name).writeLock();
            default -> clients.size() == 1
                ? one.getLock(name)
                : new RedissonRedLock(clients.stream().map(c -> c.getLock(name)).toArray(RLock[]::new));
        };
    }

    static String run(Map<String, RLock> made, String command, String[] a) throws Exception {
        switch (command) {
            case "pairs":
                return pairs(pair(a[0], a.length > 3 ? a[3] : "lock"), a[0], Integer.parseInt(a[1]), Integer.parseInt(a[2]));
            case "contend":
                return contend(a.length > 3 ? a[3] : "lock", a[0], Integer.parseInt(a[1]), Double.parseDouble(a[2]));
        }
        String kind = command.contains(":") ? command.substring(0, command.indexOf(':')) : "";
        String verb = command.substring(command.indexOf(':') + 1);
        RLock l = made.computeIfAbsent(kind + " " + a[0], k -> lock(kind, a[0]));
        switch (verb) {
            case "lock":
                if (a.length > 1) l.lock(Long.parseLong(a[1]), TimeUnit.MILLISECONDS); else l.lock();
                return "ok";
            case "token":
                return "ok " + clients.get(0).getFencedLock(a[0]).lockAndGetToken();
            case "try":
                long lease = a.length > 2 ? Long.parseLong(a[2]) : -1;
                return l.tryLock(Long.parseLong(a[1]), lease, TimeUnit.MILLISECONDS) ? "ok" : "no";
            case "unlock":
                l.unlock();
                return "ok";
            case "force":
                return l.forceUnlock() ? "ok" : "no";
            case "held":
                return l.isHeldByCurrentThread() ? "ok " + l.getHoldCount() + " " + l.remainTimeToLive() : "no";
            default:
                return "error no such command";
        }
    }

    /** Takes and gives back a lock, another lock object, names:COUNT, or permit:OF:HELD of PREFIX; nobody gives the held ones back. */
    static Named pair(String prefix, String what) throws Exception {
        RedissonClient one = clients.get(0);
        int[] n = Arrays.stream(what.split(":")).skip(1).mapToInt(Integer::parseInt).toArray();
        if (n.length == 2) {
            RPermitExpirableSemaphore permits = one.getPermitExpirableSemaphore(prefix);
            if (permits.trySetPermits(n[0])) for (int i = 0; i < n[1]; i++) permits.acquire();
            return name -> permits.release(permits.acquire(lease, TimeUnit.MILLISECONDS));
        }
        return name -> {
            RLock l = n.length == 0 ? lock(what, name) : new RedissonMultiLock(
                IntStream.range(0, n[0]).mapToObj(i -> one.getLock(name + "/" + i)).toArray(RLock[]::new));
            l.lock();
            l.unlock();
        };
    }

    interface Named {
        void run(String name) throws Exception;
    }

    static String pairs(Named pair, String prefix, int count, int callers) throws Exception {
        AtomicInteger next = new AtomicInteger();
        long[] took = new long[count];
        long begin = System.nanoTime();
        inThreads(callers, caller -> {
            for (int n; (n = next.getAndIncrement()) < count; ) {
                long asked = System.nanoTime();
                pair.run(prefix + ":" + caller + ":" + n);
                took[n] = System.nanoTime() - asked;
            }
        });
        double seconds = (System.nanoTime() - begin) / 1e9;
        Arrays.sort(took);
        return "ok " + took[count / 2] / 1_000 + " " + count / seconds;
    }

    static String contend(String kind, String name, int waiters, double seconds) throws Exception {
        Turns turns = new Turns(System.nanoTime() + (long) (seconds * 1e9));
        inThreads(waiters, caller -> {
            RLock l = lock(kind, name);
            for (long asked; (asked = System.nanoTime()) < turns.end; ) {
                l.lock();
                if (turns.begin(caller, asked)) Thread.sleep(1);
                turns.end(caller);
                l.unlock();
            }
        });
        return turns.toString();
    }

    /** What the holders of one name note. Nobody works after the end: those who still wait then let go at once. */
    static class Turns {
        final long end;
        private final List<Long> gaps = new ArrayList<>();
        private long longest, worked;
        private int grants, last = -1;

        Turns(long end) {
            this.end = end;
        }

        synchronized boolean begin(int caller, long asked) {
            long now = System.nanoTime();
            longest = Math.max(longest, Math.min(now, end) - asked);
            if (now >= end) return false;
            grants++;
            if (last >= 0 && last != caller) gaps.add(now - worked);
            return true;
        }

        synchronized void end(int caller) {
            last = caller;
            worked = System.nanoTime();
        }

        @Override
        public synchronized String toString() {
            gaps.sort(null);
            long gap = gaps.isEmpty() ? -1 : gaps.get(gaps.size() / 2) / 1_000;
            return "ok " + gap + " " + longest / 1_000_000 + " " + grants;
        }
    }

    interface Caller {
        void run(int caller) throws Exception;
    }

    static void inThreads(int callers, Caller all) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(callers);
        try {
            List<Future<?>> running = new ArrayList<>();
            for (int i = 0; i < callers; i++) {
                int caller = i;
                running.add(pool.submit(() -> {
                    all.run(caller);
                    return null;
                }));
            }
            for (Future<?> one : running) one.get();
        } finally {
            pool.shutdownNow();
        }
    }

    public static void main(String[] a) throws Exception {
        lease = Long.parseLong(a[1]);
        for (String node : a[0].split(",")) {
            Config c = new Config();
            c.useSingleServer().setAddress("redis://" + node);
            c.setLockWatchdogTimeout(lease);
            clients.add(Redisson.create(c));
        }
        Map<String, RLock> made = new ConcurrentHashMap<>();
        Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] p = line.split(" ");
            threads.computeIfAbsent(p[1], k -> Executors.newSingleThreadExecutor()).submit(() -> {
                long from = System.nanoTime();
                String answer;
                try {
                    answer = run(made, p[2], Arrays.copyOfRange(p, 3, p.length));
                } catch (Throwable e) {
                    answer = "error " + e.getClass().getSimpleName() + ": " + String.valueOf(e.getMessage()).replace('\n', ' ');
                }
                synchronized (System.out) {
                    System.out.println(p[0] + " " + (System.nanoTime() - from) / 1_000_000 + " " + answer);
                }
            });
        }
        System.exit(0);
    }
}
