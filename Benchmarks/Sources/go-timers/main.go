// What a deadline costs in Go: time.AfterFunc and Stop.
//
// Prints one line of JSON: processor time of an operation, in nanoseconds.
//
// usage: go-timers [-operations N]
package main

import (
	"flag"
	"fmt"
	"syscall"
	"time"
)

func processorTime() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func nothing() {}

// Each is stopped before the next one is made.
func armInTurn(count int) float64 {
	start := processorTime()
	for i := 0; i < count; i++ {
		time.AfterFunc(time.Minute, nothing).Stop()
	}
	return float64(processorTime()-start) / float64(count)
}

// All are made before the first one is stopped.
func armAtOnce(count int) float64 {
	start := processorTime()
	timers := make([]*time.Timer, count)
	for i := range timers {
		timers[i] = time.AfterFunc(time.Minute, nothing)
	}
	for _, timer := range timers {
		timer.Stop()
	}
	return float64(processorTime()-start) / float64(count)
}

func main() {
	count := flag.Int("operations", 1000000, "how many timers")
	flag.Parse()
	armInTurn(*count / 10)
	inTurn := armInTurn(*count)
	armAtOnce(*count / 10)
	atOnce := armAtOnce(*count)
	fmt.Printf("{\"operations\": %d, \"in_turn_ns\": %.1f, \"at_once_ns\": %.1f}\n", *count, inTurn, atOnce)
}
