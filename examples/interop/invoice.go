// Appends two lines to a file, under a lock: invoice HOST:PORT[,HOST:PORT...] NAME FILE
package main

import (
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

func main() {
	var pools []redis.Pool
	for _, server := range strings.Split(os.Args[1], ",") {
		pools = append(pools, goredis.NewPool(client.NewClient(&client.Options{Addr: server})))
	}
	// redsync does not renew: the work must end within the expiry. It polls every 50 to 250 ms.
	mutex := redsync.New(pools...).NewMutex(os.Args[2],
		redsync.WithExpiry(10*time.Second), redsync.WithTries(600))
	if err := mutex.Lock(); err != nil {
		log.Fatal(err)
	}
	write(os.Args[3], "begin")
	time.Sleep(50 * time.Millisecond)
	write(os.Args[3], "end")
	if ok, err := mutex.Unlock(); !ok {
		log.Fatal("the lock was lost: ", err)
	}
}

func write(file, what string) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	if _, err := fmt.Fprintf(out, "go %d %s\n", os.Getpid(), what); err != nil {
		log.Fatal(err)
	}
}
