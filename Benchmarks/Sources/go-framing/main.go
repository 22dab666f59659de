// Lines and messages in Go: bufio.Scanner, and io.ReadFull on a bufio.Reader, with buffers of 64 KiB. At the end of the
// stream the answer is how many there were, and the sum of their bytes.
//
// usage: go-framing -mode lines|messages
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
)

const bufferSize = 64 * 1024

type tally struct {
	count, sum uint64
}

const evenBytes = 0x00ff00ff00ff00ff

// The sum of the eight bytes of a word. The compiler does not make that of a loop over bytes.
func sumOfWord(word uint64) uint64 {
	pairs := (word & evenBytes) + (word >> 8 & evenBytes)
	return pairs * 0x0001000100010001 >> 48
}

func (t *tally) addBytes(bytes []byte) {
	t.count++
	for len(bytes) >= 8 {
		t.sum += sumOfWord(binary.LittleEndian.Uint64(bytes))
		bytes = bytes[8:]
	}
	for _, b := range bytes {
		t.sum += uint64(b)
	}
}

func (t *tally) addText(text string) {
	t.count++
	for len(text) >= 8 {
		// One load.
		t.sum += sumOfWord(uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56)
		text = text[8:]
	}
	for i := 0; i < len(text); i++ {
		t.sum += uint64(text[i])
	}
}

func takeLines(connection net.Conn) (total tally, err error) {
	scanner := bufio.NewScanner(connection)
	scanner.Buffer(make([]byte, bufferSize), bufferSize)
	for scanner.Scan() {
		total.addText(scanner.Text())
	}
	return total, scanner.Err()
}

func takeMessages(connection net.Conn) (total tally, err error) {
	reader := bufio.NewReaderSize(connection, bufferSize)
	var prefix [4]byte
	for {
		if _, err := io.ReadFull(reader, prefix[:]); err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
		message := make([]byte, binary.BigEndian.Uint32(prefix[:]))
		if _, err := io.ReadFull(reader, message); err != nil {
			return total, err
		}
		total.addBytes(message)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func main() {
	take := map[string]func(net.Conn) (tally, error){"lines": takeLines, "messages": takeMessages}
	if len(os.Args) != 3 || os.Args[1] != "-mode" || take[os.Args[2]] == nil {
		fmt.Fprintln(os.Stderr, "usage: go-framing -mode lines|messages")
		os.Exit(2)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Fprintf(os.Stderr, "listening on %s\n", listener.Addr())
	for {
		connection, err := listener.Accept()
		if err != nil {
			fail(err)
		}
		go func() {
			defer connection.Close()
			total, err := take[os.Args[2]](connection)
			if err != nil {
				fail(err)
			}
			fmt.Fprintf(connection, "%d %d\n", total.count, total.sum)
		}()
	}
}
