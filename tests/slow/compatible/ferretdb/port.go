package main

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
)

// The first byte that a TLS client sends (RFC 8446, 5.1).
const handshake = 0x16

// Like MongoDB, serve plain and TLS connections on one port. TLS ends here, and all data is passed to the server's own
// port.
func serve(address, pem, inner string) {
	pair, err := tls.LoadX509KeyPair(pem, pem)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	settings := &tls.Config{Certificates: []tls.Certificate{pair}}
	for {
		outer, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go pass(outer, settings, inner)
	}
}

// A connection whose first byte was read ahead, and is still in the reader.
type seen struct {
	net.Conn
	reader *bufio.Reader
}

func (of seen) Read(into []byte) (int, error) { return of.reader.Read(into) }

func pass(outer net.Conn, settings *tls.Config, inner string) {
	defer outer.Close()
	reader := bufio.NewReader(outer)
	first, err := reader.Peek(1)
	if err != nil {
		return
	}
	var client net.Conn = seen{outer, reader}
	if first[0] == handshake {
		client = tls.Server(client, settings)
	}
	server, err := net.Dial("tcp", inner)
	if err != nil {
		return
	}
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	io.Copy(client, server)
}
