import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.CREATE;

/** Appends two lines to a file, under a lock: {@code Invoice HOST:PORT[,HOST:PORT...] NAME FILE}. */
public class Invoice {
    public static void main(String[] args) throws Exception {
        RedissonClient[] clients = Arrays.stream(args[0].split(",")).map(Invoice::connect).toArray(RedissonClient[]::new);
        RLock[] locks = Arrays.stream(clients).map(client -> client.getLock(args[1])).toArray(RLock[]::new);
        RLock lock = locks.length == 1 ? locks[0] : new RedissonRedLock(locks);
        lock.lock(); // without a lease: Redisson renews it until unlock()
        try {
            write(args[2], "begin");
            Thread.sleep(50);
            write(args[2], "end");
        } finally {
            lock.unlock();
        }
        Arrays.stream(clients).forEach(RedissonClient::shutdown);
    }

    static RedissonClient connect(String server) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + server);
        return Redisson.create(config);
    }

    static void write(String file, String what) throws Exception {
        Files.writeString(Path.of(file), "java " + ProcessHandle.current().pid() + " " + what + "\n", CREATE, APPEND);
    }
}
