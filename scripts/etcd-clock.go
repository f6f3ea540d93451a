// How the clocks of a Go program are moved: scripts/get-etcd-clock adds this file to Go's package time,
// and lets Now, Since and Until read the clocks here. A preloaded library cannot do that, for Go asks
// the kernel itself. Timers stay real, as they do under libfaketime here.
package time

import (
	"sync/atomic"
	"syscall"
)

type moved struct {
	// The wall clock is ahead by this much.
	byNs int64
	// All clocks run at this rate from the start of the process, as chrony slews them: it slews
	// CLOCK_MONOTONIC too.
	rate float64
	// If it is not 0, the wall clock stands still at this second.
	frozen int64
}

// Now may run on a stack of the scheduler, which cannot read a file: a goroutine does.
var movedBy atomic.Pointer[moved]

const readEvery = 2 * Millisecond

func init() {
	path, found := syscall.Getenv("QUORUMLOCK_CLOCK_FILE")
	if !found {
		return
	}
	movedBy.Store(readMoved(path))
	go func() {
		for {
			Sleep(readEvery)
			movedBy.Store(readMoved(path))
		}
	}()
}

func movedNow() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = now()
	by := movedBy.Load()
	if by == nil {
		return
	}
	gained := by.gained(mono)
	if by.frozen != 0 {
		return by.frozen, 0, mono + gained
	}
	wall := sec*1e9 + int64(nsec) + by.byNs + gained
	return wall / 1e9, int32(wall % 1e9), mono + gained
}

func movedNano() int64 {
	mono := runtimeNano()
	by := movedBy.Load()
	if by == nil {
		return mono
	}
	return mono + by.gained(mono)
}

func (by *moved) gained(mono int64) int64 {
	return int64(float64(mono-startNano) * (by.rate - 1))
}

func readMoved(path string) *moved {
	file, err := open(path)
	if err != nil {
		panic("time: no clock file " + path)
	}
	buffer := make([]byte, 64)
	length, err := read(file, buffer)
	closefd(file)
	if err != nil {
		panic("time: unreadable clock file " + path)
	}
	return parseMoved(buffer[:length])
}

// The text is what libfaketime reads: "+1.500" or "-1.500" moves the wall clock by seconds, "+0 x1.01"
// sets the rate, "1700000000" stops the wall clock at this second.
func parseMoved(text []byte) *moved {
	by := &moved{rate: 1}
	if len(text) == 0 || text[0] != '+' && text[0] != '-' {
		by.frozen, _, _ = decimal(text)
		return by
	}
	whole, nanos, rest := decimal(text[1:])
	by.byNs = whole*1e9 + nanos
	if text[0] == '-' {
		by.byNs = -by.byNs
	}
	if len(rest) > 2 && rest[0] == ' ' && rest[1] == 'x' {
		whole, nanos, _ = decimal(rest[2:])
		by.rate = float64(whole) + float64(nanos)/1e9
	}
	return by
}

// The number at the beginning of the text: its whole part, its fraction in billionths, and the rest.
func decimal(text []byte) (whole, nanos int64, rest []byte) {
	at := 0
	for ; at < len(text) && '0' <= text[at] && text[at] <= '9'; at++ {
		whole = whole*10 + int64(text[at]-'0')
	}
	if at < len(text) && text[at] == '.' {
		at++
		for unit := int64(1e8); at < len(text) && '0' <= text[at] && text[at] <= '9'; at++ {
			nanos += int64(text[at]-'0') * unit
			unit /= 10
		}
	}
	return whole, nanos, text[at:]
}
