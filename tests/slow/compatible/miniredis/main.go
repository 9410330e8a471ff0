// A miniredis with a plain port, a TLS port, and one account. Its password is in the variable PASSWORD.
//
//	server ADDRESS TLS-ADDRESS PEM USER
package main

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"os"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	address, secureAddress, pem, user := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	pair, err := tls.LoadX509KeyPair(pem, pem)
	if err != nil {
		log.Fatal(err)
	}
	redis := miniredis.NewMiniRedis()
	redis.RequireUserAuth(user, os.Getenv("PASSWORD"))
	if err := redis.StartAddr(address); err != nil {
		log.Fatal(err)
	}
	// miniredis has only one port, so the TLS port is served here, and TLS ends here.
	secure, err := tls.Listen("tcp", secureAddress, &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		log.Fatal(err)
	}
	for {
		outer, err := secure.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go pass(outer, address)
	}
}

func pass(outer net.Conn, address string) {
	defer outer.Close()
	inner, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	go func() {
		io.Copy(inner, outer)
		inner.Close()
	}()
	io.Copy(outer, inner)
}
