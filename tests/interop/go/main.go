// redsync driven by lines (../README.md): redsync HOST:PORT[,HOST:PORT...] EXPIRY_MS
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

// quiet: servers are stopped and killed on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	client.SetLogger(quiet{})
	var pools []redis.Pool
	for _, node := range strings.Split(os.Args[1], ",") {
		pools = append(pools, goredis.NewPool(client.NewClient(&client.Options{Addr: node})))
	}
	expiry := time.Duration(number(os.Args[2]) * float64(time.Millisecond))
	rs := redsync.New(pools...)

	var mu sync.Mutex
	held := map[string]*redsync.Mutex{}
	run := func(p []string) string {
		key := p[1] + " " + p[3]
		mu.Lock()
		m := held[key]
		mu.Unlock()
		switch p[2] {
		case "lock", "try": // lock: 1,000 tries; try NAME MS: tries that fit into MS, at least one
			tries := 1000
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if p[2] == "try" {
				tries = 1 + int(number(p[4]))/50
			}
			m = rs.NewMutex(p[3], redsync.WithExpiry(expiry), redsync.WithTries(tries))
			if err := m.LockContext(ctx); err != nil {
				return "no " + err.Error()
			}
			mu.Lock()
			held[key] = m
			mu.Unlock()
			return "ok " + m.Value()
		case "unlock", "extend", "held":
			if m == nil {
				return "error never held"
			}
			var ok bool
			var err error
			switch p[2] {
			case "unlock":
				ok, err = m.Unlock()
			case "extend":
				ok, err = m.Extend()
			default:
				ok, err = m.Valid()
			}
			if ok {
				return "ok"
			}
			return fmt.Sprint("no ", err)
		}
		mutex := func(name string) *redsync.Mutex {
			return rs.NewMutex(name, redsync.WithExpiry(expiry), redsync.WithTries(1000))
		}
		switch p[2] {
		case "pairs":
			return pairs(mutex, p[3], int(number(p[4])), int(number(p[5])))
		case "contend":
			return contend(mutex, p[3], int(number(p[4])), number(p[5]))
		}
		return "error no such command"
	}

	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		p := strings.Fields(in.Text())
		go func() {
			from := time.Now()
			answer := strings.ReplaceAll(run(p), "\n", " ")
			mu.Lock()
			fmt.Println(p[0], time.Since(from).Milliseconds(), answer)
			mu.Unlock()
		}()
	}
}

func number(text string) float64 {
	value, _ := strconv.ParseFloat(text, 64)
	return value
}

func pairs(mutex func(string) *redsync.Mutex, prefix string, count, callers int) string {
	var next atomic.Int64
	took := make([]time.Duration, count)
	begin := time.Now()
	err := inGoroutines(callers, func(caller int) error {
		for n := next.Add(1) - 1; n < int64(count); n = next.Add(1) - 1 {
			asked := time.Now()
			m := mutex(fmt.Sprintf("%s:%d:%d", prefix, caller, n))
			if err := m.Lock(); err != nil {
				return err
			}
			if ok, err := m.Unlock(); !ok {
				return fmt.Errorf("not unlocked: %v", err)
			}
			took[n] = time.Since(asked)
		}
		return nil
	})
	seconds := time.Since(begin).Seconds()
	if err != nil {
		return "error " + err.Error()
	}
	slices.Sort(took)
	return fmt.Sprintf("ok %d %f", took[count/2].Microseconds(), float64(count)/seconds)
}

func contend(mutex func(string) *redsync.Mutex, name string, waiters int, seconds float64) string {
	var mu sync.Mutex
	var gaps []time.Duration
	var worked time.Time
	var longest time.Duration
	grants, last := 0, -1
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	// Nobody works after the end: those who still wait then let go at once.
	granted := func(caller int, asked time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if now.After(end) {
			longest = max(longest, end.Sub(asked))
			return false
		}
		longest = max(longest, now.Sub(asked))
		grants++
		if last >= 0 && last != caller {
			gaps = append(gaps, now.Sub(worked))
		}
		return true
	}
	err := inGoroutines(waiters, func(caller int) error {
		for asked := time.Now(); asked.Before(end); asked = time.Now() {
			m := mutex(name)
			if err := m.Lock(); err != nil {
				return err
			}
			if granted(caller, asked) {
				time.Sleep(time.Millisecond)
			}
			mu.Lock()
			last, worked = caller, time.Now()
			mu.Unlock()
			if ok, err := m.Unlock(); !ok {
				return fmt.Errorf("not unlocked: %v", err)
			}
		}
		return nil
	})
	if err != nil {
		return "error " + err.Error()
	}
	gap := time.Duration(-1000)
	if len(gaps) > 0 {
		slices.Sort(gaps)
		gap = gaps[len(gaps)/2]
	}
	return fmt.Sprintf("ok %d %d %d", gap.Microseconds(), longest.Milliseconds(), grants)
}

// inGoroutines runs callers of them, and tells the first error.
func inGoroutines(callers int, run func(caller int) error) error {
	errs := make(chan error, callers)
	for caller := range callers {
		go func() { errs <- run(caller) }()
	}
	var first error
	for range callers {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}
