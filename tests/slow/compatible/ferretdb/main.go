// A FerretDB over SQLite, with one port for plain and TLS, and one account. Its password is in the variable PASSWORD.
//
//	server ADDRESS PEM USER FOLDER
//
// FerretDB's package for embedding has no option for accounts, so its internal packages are imported. Go allows that
// only to this module's path, which is below FerretDB's.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/FerretDB/FerretDB/internal/clientconn"
	"github.com/FerretDB/FerretDB/internal/clientconn/connmetrics"
	"github.com/FerretDB/FerretDB/internal/handler/registry"
	"github.com/FerretDB/FerretDB/internal/util/password"
	"github.com/FerretDB/FerretDB/internal/util/state"
)

func main() {
	address, pem, user, folder := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	kept, err := state.NewProvider("")
	if err != nil {
		log.Fatal(err)
	}
	err = kept.Update(func(saved *state.State) {
		saved.DisableTelemetry()
		saved.TelemetryLocked = true
	})
	if err != nil {
		log.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	metrics := connmetrics.NewListenerMetrics()
	handler, closeBackend, err := registry.NewHandler("sqlite", &registry.NewHandlerOpts{
		Logger:        logger,
		ConnMetrics:   metrics.ConnMetrics,
		StateProvider: kept,
		TCPHost:       address,
		SetupDatabase: "admin",
		SetupUsername: user,
		SetupPassword: password.WrapPassword(os.Getenv("PASSWORD")),
		SetupTimeout:  time.Minute,
		SQLiteURL:     "file:" + folder + "/",
		TestOpts:      registry.TestOpts{EnableNewAuth: true, CappedCleanupPercentage: 10, BatchSize: 100},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer closeBackend()
	listener, err := clientconn.Listen(&clientconn.NewListenerOpts{
		TCP:     "127.0.0.1:0",
		Mode:    clientconn.NormalMode,
		Metrics: metrics,
		Handler: handler,
		Logger:  logger,
	})
	if err != nil {
		log.Fatal(err)
	}
	go serve(address, pem, listener.TCPAddr().String())
	listener.Run(context.Background())
}
