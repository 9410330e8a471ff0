// A go-mysql-server in memory, with TLS and one account with all privileges. Its password is in the variable PASSWORD.
//
//	server ADDRESS PEM USER
package main

import (
	"crypto/tls"
	"log"
	"os"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
)

func main() {
	address, pem, user := os.Args[1], os.Args[2], os.Args[3]
	pair, err := tls.LoadX509KeyPair(pem, pem)
	if err != nil {
		log.Fatal(err)
	}
	provider := memory.NewDBProvider()
	engine := sqle.NewDefault(provider)
	accounts := engine.Analyzer.Catalog.MySQLDb
	accounts.SetEnabled(true)
	editor := accounts.Editor()
	accounts.AddSuperUser(editor, user, "%", os.Getenv("PASSWORD"))
	editor.Close()
	config := server.Config{
		Protocol:  "tcp",
		Address:   address,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
	}
	listening, err := server.NewServer(config, engine, sql.NewContext, memory.NewSessionBuilder(provider), nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(listening.Start())
}
