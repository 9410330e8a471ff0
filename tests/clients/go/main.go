// The round trip of an application over database/sql.
//
// Each line of standard input requests one: its name, the driver's DSN, the name that its rows carry, and "plain" or
// "sealed", tab by tab. Facts come back as lines, each behind the round trip's name.
package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/go-sql-driver/mysql"
)

const layout = "2006-01-02 15:04:05"

type trip struct {
	db     *sql.DB
	ctx    context.Context
	owner  string
	sealed bool
	say    func(format string, values ...any)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		request := strings.Split(lines.Text(), "\t")
		say := func(format string, values ...any) {
			fmt.Printf("%s\t%s\n", request[0], fmt.Sprintf(format, values...))
		}
		if err := run(request[1], request[2], request[3] == "sealed", say); err != nil {
			say("error: %v", err)
		}
	}
}

func run(dsn, owner string, sealed bool, say func(string, ...any)) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	// If this program hangs, the process that waits for it ends it.
	ctx := context.Background()
	if err := db.PingContext(ctx); err != nil {
		return err
	}
	t := &trip{db, ctx, owner, sealed, say}
	for _, step := range []func() error{t.columns, t.cities, t.people, t.leave} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (t *trip) columns() error {
	rows, err := t.db.QueryContext(t.ctx, "SHOW COLUMNS FROM cities")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name, kind, null, key, extra string
		var usual sql.NullString
		if err := rows.Scan(&name, &kind, &null, &key, &usual, &extra); err != nil {
			return err
		}
		names = append(names, name)
	}
	t.say("columns: %s", strings.Join(names, ", "))
	return rows.Err()
}

func (t *trip) cities() error {
	made, err := t.db.ExecContext(t.ctx, "INSERT INTO cities (name, residents) VALUES (?, ?)", t.owner, 3)
	if err != nil {
		return err
	}
	id, err := made.LastInsertId()
	if err != nil {
		return err
	}
	if err := t.visits(id); err != nil {
		return err
	}
	if err := t.summary(id); err != nil {
		return err
	}
	changed, err := t.db.ExecContext(t.ctx, "UPDATE cities SET residents = residents + ? WHERE id = ?", 1, id)
	if err != nil {
		return err
	}
	count, err := changed.RowsAffected()
	if err != nil {
		return err
	}
	t.say("updated: %d", count)
	return t.rollback(id)
}

func (t *trip) visits(city int64) error {
	transaction, err := t.db.BeginTx(t.ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	insert, err := transaction.PrepareContext(t.ctx, "INSERT INTO visits (city_id, at, note, price) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	first, second := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC)
	if _, err := insert.ExecContext(t.ctx, city, first, nil, "1.50"); err != nil {
		return err
	}
	if _, err := insert.ExecContext(t.ctx, city, second, "O'Hara \\ é", "2.25"); err != nil {
		return err
	}
	if err := transaction.Commit(); err != nil {
		return err
	}
	rows, err := t.db.QueryContext(t.ctx, "SELECT at, note, price FROM visits WHERE city_id = ? ORDER BY at LIMIT 9", city)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var at time.Time
		var note sql.NullString
		var price string
		if err := rows.Scan(&at, &note, &price); err != nil {
			return err
		}
		if !note.Valid {
			note.String = "none"
		}
		t.say("visit: %s, %s, %s", at.Format(layout), note.String, price)
	}
	return rows.Err()
}

func (t *trip) summary(city int64) error {
	const question = "SELECT c.name, COUNT(*), SUM(v.price), MAX(v.at) FROM cities c JOIN visits v ON v.city_id = c.id " +
		"WHERE c.id = ? GROUP BY c.name HAVING COUNT(*) > 1"
	var name, sum string
	var count int
	var last time.Time
	if err := t.db.QueryRowContext(t.ctx, question, city).Scan(&name, &count, &sum, &last); err != nil {
		return err
	}
	t.say("summary: %s, %d, %s, %s", name, count, sum, last.Format(layout))
	return nil
}

func (t *trip) rollback(city int64) error {
	transaction, err := t.db.BeginTx(t.ctx, nil)
	if err != nil {
		return err
	}
	defer transaction.Rollback()
	if _, err := transaction.ExecContext(t.ctx, "UPDATE cities SET residents = 99 WHERE id = ?", city); err != nil {
		return err
	}
	if err := transaction.Rollback(); err != nil {
		return err
	}
	var residents int
	if err := t.db.QueryRowContext(t.ctx, "SELECT residents FROM cities WHERE id = ?", city).Scan(&residents); err != nil {
		return err
	}
	t.say("residents: %d", residents)
	return nil
}

func (t *trip) people() error {
	const insert = "INSERT INTO people (name, salary, city) VALUES (?, ?, ?)"
	made, err := t.db.ExecContext(t.ctx, insert, "Ann-"+t.owner, 4710, t.owner)
	if err != nil {
		return err
	}
	id, err := made.LastInsertId()
	if err != nil {
		return err
	}
	if _, err := t.db.ExecContext(t.ctx, "UPDATE people SET salary = ? WHERE id = ?", 4711, id); err != nil {
		return err
	}
	row := t.db.QueryRowContext(t.ctx, "SELECT name, salary, city FROM people WHERE id = ?", id)
	if t.sealed {
		var name, salary []byte
		var city string
		if err := row.Scan(&name, &salary, &city); err != nil {
			return err
		}
		t.say("person: hex:%s, hex:%s, %s", hex.EncodeToString(name), hex.EncodeToString(salary), city)
	} else {
		var name, city string
		var salary int
		if err := row.Scan(&name, &salary, &city); err != nil {
			return err
		}
		t.say("person: %s, %d, %s", name, salary, city)
	}
	var found int
	question := "SELECT COUNT(*) FROM people WHERE name = ?"
	if err := t.db.QueryRowContext(t.ctx, question, "Ann-"+t.owner).Scan(&found); err != nil {
		return err
	}
	t.say("found: %d", found)
	return nil
}

func (t *trip) leave() error {
	for _, statement := range []string{
		"DELETE FROM people WHERE city = ?",
		"DELETE FROM visits WHERE city_id IN (SELECT id FROM cities WHERE name = ?)",
		"DELETE FROM cities WHERE name = ?",
	} {
		if _, err := t.db.ExecContext(t.ctx, statement, t.owner); err != nil {
			return err
		}
	}
	var left int
	question := "SELECT COUNT(*) FROM cities WHERE name = ?"
	if err := t.db.QueryRowContext(t.ctx, question, t.owner).Scan(&left); err != nil {
		return err
	}
	t.say("left: %d", left)
	return nil
}
