package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// achdPull implements the part of `achd pull` that scripts need. Its arguments are ADDRESS CHANNEL.
// It prints the server's answer, then each frame as a line.
func achdPull() {
	conn, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(conn, "channel-name: %s\ntransport: tcp\nget-last: 1\ndirection: push\n.\n", os.Args[2])
	in := bufio.NewReader(conn)
	refused := false
	for line := ""; line != ".\n"; {
		if line, err = in.ReadString('\n'); err != nil {
			fmt.Fprintln(os.Stderr, "no answer:", err)
			os.Exit(1)
		}
		fmt.Print(line)
		refused = refused || strings.HasPrefix(line, "message: ")
	}
	for {
		var head [16]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			if refused {
				os.Exit(1)
			}
			return
		}
		frame := make([]byte, binary.LittleEndian.Uint64(head[8:]))
		if _, err := io.ReadFull(in, frame); err != nil {
			os.Exit(1)
		}
		fmt.Printf("%s\n", frame)
	}
}

// achdPush implements `achd push`. Its arguments are ADDRESS CHANNEL FRAME. It prints the server's
// answer and puts one frame if the server permits it.
func achdPush() {
	conn, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintf(conn, "channel-name: %s\ntransport: tcp\nget-last: 0\ndirection: pull\n.\n", os.Args[2])
	for in, line := bufio.NewReader(conn), ""; line != ".\n"; {
		if line, err = in.ReadString('\n'); err != nil || strings.HasPrefix(line, "message: ") {
			fmt.Print(line)
			os.Exit(1)
		}
		fmt.Print(line)
	}
	frame := binary.LittleEndian.AppendUint64([]byte("achpipe\x00"), uint64(len(os.Args[3])))
	if _, err := conn.Write(append(frame, os.Args[3]...)); err != nil {
		os.Exit(1)
	}
	conn.Close()
}
