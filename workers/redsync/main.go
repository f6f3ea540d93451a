// redsync on go-redis, with its defaults and the lease as its expiry.
//
// A worker of the lab, by the lines of docs/lab/WORKERS.md. redsync says until when a lock is valid
// (Until, less its drift factor); it renews nothing by itself and tells no loss.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

type order struct {
	Order   string
	ID      uint64
	Names   []string
	Servers []string
	LeaseMS int64  `json:"lease_ms"`
	WaitMS  *int64 `json:"wait_ms"`
}

type line map[string]any

var (
	out, mu sync.Mutex
	locks   *redsync.Redsync
	holds   = map[uint64]*redsync.Mutex{}
)

const bootTime = 7 // CLOCK_BOOTTIME

func clock() int64 {
	var now syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootTime, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func say(name string, fields line) {
	fields["line"] = name
	text, _ := json.Marshal(fields)
	out.Lock()
	defer out.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

func hello(o order) {
	var pools []redis.Pool
	for _, server := range o.Servers {
		if options, err := client.ParseURL(server); err == nil {
			pools = append(pools, goredis.NewPool(client.NewClient(options)))
		}
	}
	locks = redsync.New(pools...)
	say("hello", line{
		"protocol": 1, "library": "redsync", "version": "4.18.1",
		"topologies": []string{"one", "quorum"}, "kinds": []string{"lock"}, "features": []string{"validity"},
		"options": line{"expiry": "the lease"},
	})
}

func left(m *redsync.Mutex) int64 { return max(0, time.Until(m.Until()).Nanoseconds()) }

// By default redsync tries 32 times. With wait_ms 0 it tries once.
func acquire(o order) {
	m := locks.NewMutex(o.Names[0], redsync.WithExpiry(time.Duration(o.LeaseMS)*time.Millisecond))
	asked := clock()
	var err error
	if o.WaitMS != nil && *o.WaitMS == 0 {
		err = m.TryLock()
	} else {
		err = m.Lock()
	}
	heard := clock()
	if err != nil {
		var taken *redsync.ErrTaken
		held := errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)
		say("refused", line{"id": o.ID, "asked_ns": asked, "heard_ns": heard, "held": held, "why": err.Error()})
		return
	}
	mu.Lock()
	holds[o.ID] = m
	mu.Unlock()
	say("granted", line{"id": o.ID, "asked_ns": asked, "heard_ns": heard, "valid_for_ns": left(m)})
}

func hold(id uint64) *redsync.Mutex {
	mu.Lock()
	defer mu.Unlock()
	return holds[id]
}

func check(o order) {
	now, m := clock(), hold(o.ID)
	say("checked", line{"id": o.ID, "asked_ns": now, "heard_ns": now, "valid": left(m) > 0, "valid_for_ns": left(m)})
}

func release(o order) {
	asked := clock()
	ok, err := hold(o.ID).Unlock()
	why := ""
	if err != nil {
		why = err.Error()
	}
	say("released", line{"id": o.ID, "asked_ns": asked, "heard_ns": clock(), "ok": ok, "why": why})
}

// quiet: servers are stopped and killed on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	client.SetLogger(quiet{})
	orders := map[string]func(order){"acquire": acquire, "check": check, "release": release}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var o order
		if json.Unmarshal(lines.Bytes(), &o) != nil {
			continue
		}
		if o.Order == "hello" {
			hello(o) // before all others
		} else if carryOut, known := orders[o.Order]; known {
			go carryOut(o)
		}
	}
	// The lab has ended: give nothing back.
}
