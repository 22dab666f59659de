// A server on Go's net package: a goroutine and a buffer for each connection. TCP_NODELAY is Go's default.
//
// usage: go-echo [-mode echo|sink|fanout] [-buffer BYTES]
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
)

func echo(connection net.Conn, buffer []byte) {
	for {
		count, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err := connection.Write(buffer[:count]); err != nil {
			return
		}
	}
}

func discard(connection net.Conn, buffer []byte) {
	for {
		if _, err := connection.Read(buffer); err != nil {
			return
		}
	}
}

// What one connection sends goes to all.
var everybody = struct {
	sync.Mutex
	connections map[net.Conn]bool
}{connections: map[net.Conn]bool{}}

func sendToAll(connection net.Conn, buffer []byte) {
	everybody.Lock()
	everybody.connections[connection] = true
	everybody.Unlock()
	defer func() {
		everybody.Lock()
		delete(everybody.connections, connection)
		everybody.Unlock()
	}()
	for {
		count, err := connection.Read(buffer)
		if err != nil {
			return
		}
		everybody.Lock()
		for other := range everybody.connections {
			other.Write(buffer[:count])
		}
		everybody.Unlock()
	}
}

func main() {
	handlers := map[string]func(net.Conn, []byte){"echo": echo, "sink": discard, "fanout": sendToAll}
	mode := flag.String("mode", "echo", "what is done with the bytes: echo, sink or fanout")
	size := flag.Int("buffer", 4096, "bytes of a connection's buffer")
	flag.Parse()
	handle, known := handlers[*mode]
	if !known || *size < 1 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "listening on %s\n", listener.Addr())
	for {
		connection, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go func() {
			defer connection.Close()
			handle(connection, make([]byte, *size))
		}()
	}
}
