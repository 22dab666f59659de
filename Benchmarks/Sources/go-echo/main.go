// A server on Go's net package: a goroutine and a buffer for each connection. TCP_NODELAY is Go's default.
//
// usage: go-echo [-mode echo|sink] [-buffer BYTES]
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
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

func main() {
	handlers := map[string]func(net.Conn, []byte){"echo": echo, "sink": discard}
	mode := flag.String("mode", "echo", "what is done with the bytes: echo or sink")
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
