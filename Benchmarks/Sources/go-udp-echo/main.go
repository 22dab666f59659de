// A UDP echo server on Go's net package, which receives and sends one datagram at a time.
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "listening on %s\n", conn.LocalAddr())
	buffer := make([]byte, 65536)
	for {
		// The forms with AddrPort allocate nothing.
		count, sender, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if _, err := conn.WriteToUDPAddrPort(buffer[:count], sender); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
