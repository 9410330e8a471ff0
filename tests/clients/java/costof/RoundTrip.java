package costof;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.ResultSet;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Consumer;
import org.hibernate.Session;
import org.hibernate.SessionFactory;
import org.hibernate.cfg.Configuration;

/**
 * The round trip of an application over Hibernate.
 *
 * <p>Each line of standard input asks for one: its name, the JDBC URL, user, password, the name that its rows carry, and
 * "plain" or "sealed", tab by tab. Facts come back as lines, each behind the round trip's name.
 */
public final class RoundTrip {
    private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");

    private final SessionFactory sessions;
    private final String owner;
    private final boolean sealed;
    private final Consumer<String> say;

    private RoundTrip(SessionFactory sessions, String owner, boolean sealed, Consumer<String> say) {
        this.sessions = sessions;
        this.owner = owner;
        this.sealed = sealed;
        this.say = say;
    }

    public static void main(String[] arguments) throws Exception {
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (var line = in.readLine(); line != null; line = in.readLine()) {
            var request = line.split("\t");
            Consumer<String> say = fact -> out.println(request[0] + "\t" + fact);
            try (var sessions = sessions(request[1], request[2], request[3])) {
                new RoundTrip(sessions, request[4], request[5].equals("sealed"), say).run();
            } catch (Exception error) {
                say.accept("error: " + root(error));
            }
        }
    }

    private static SessionFactory sessions(String url, String user, String password) {
        return new Configuration()
                .setProperty("hibernate.connection.url", url)
                .setProperty("hibernate.connection.username", user)
                .setProperty("hibernate.connection.password", password)
                .setProperty("hibernate.connection.pool_size", "1")
                .addAnnotatedClass(City.class)
                .addAnnotatedClass(Visit.class)
                .addAnnotatedClass(Person.class)
                .addAnnotatedClass(SealedPerson.class)
                .buildSessionFactory();
    }

    private static String root(Throwable error) {
        return (error.getCause() == null ? error.toString() : root(error.getCause())).lines().findFirst().orElse("");
    }

    private void run() {
        sessions.inSession(session -> session.doWork(this::reflect));
        var city = sessions.fromTransaction(this::insertCity);
        sessions.inSession(session -> visits(session, city));
        sessions.inSession(session -> summary(session, city));
        sessions.inTransaction(session -> say.accept("updated: " + session.createMutationQuery(
                        "update City set residents = residents + :more where id = :id")
                .setParameter("more", 1)
                .setParameter("id", city)
                .executeUpdate()));
        rollBack(city);
        var person = sessions.fromTransaction(this::insertPerson);
        sessions.inTransaction(session -> raise(session, person));
        sessions.inSession(session -> person(session, person));
        sessions.inTransaction(session -> leave(session, city));
    }

    private void reflect(Connection connection) throws java.sql.SQLException {
        if (!connection.isValid(5)) {
            throw new IllegalStateException("the connection is not valid");
        }
        var names = new ArrayList<String>();
        try (ResultSet columns =
                connection.getMetaData().getColumns(connection.getCatalog(), null, "cities", "%")) {
            while (columns.next()) {
                names.add(columns.getString("COLUMN_NAME"));
            }
        }
        say.accept("columns: " + String.join(", ", names));
    }

    private Integer insertCity(Session session) {
        var city = new City(owner, 3);
        city.visits.add(new Visit(city, LocalDateTime.of(2026, 1, 2, 3, 4, 5), null, new BigDecimal("1.50")));
        city.visits.add(new Visit(city, LocalDateTime.of(2026, 1, 3, 0, 0), "O'Hara \\ é", new BigDecimal("2.25")));
        session.persist(city);
        return city.id;
    }

    private void visits(Session session, Integer id) {
        for (var visit : session.find(City.class, id).visits) {
            var note = visit.note == null ? "none" : visit.note;
            say.accept("visit: %s, %s, %s".formatted(TIME.format(visit.at), note, visit.price));
        }
    }

    private void summary(Session session, Integer id) {
        var question = "select c.name, count(v), sum(v.price), max(v.at) from City c join c.visits v "
                + "where c.id = :id group by c.name having count(v) > 1";
        var row = session.createSelectionQuery(question, Object[].class).setParameter("id", id).getSingleResult();
        var last = TIME.format((LocalDateTime) row[3]);
        say.accept("summary: %s, %s, %s, %s".formatted(row[0], row[1], row[2], last));
    }

    private void rollBack(Integer id) {
        sessions.inSession(session -> {
            var transaction = session.beginTransaction();
            session.find(City.class, id).residents = 99;
            session.flush();
            transaction.rollback();
        });
        sessions.inSession(session -> say.accept("residents: " + session.find(City.class, id).residents));
    }

    private Integer insertPerson(Session session) {
        var person = new Person("Ann-" + owner, 4710, owner);
        session.persist(person);
        return person.id;
    }

    private void raise(Session session, Integer id) {
        session.createMutationQuery("update Person set salary = :salary where id = :id")
                .setParameter("salary", 4711)
                .setParameter("id", id)
                .executeUpdate();
    }

    private void person(Session session, Integer id) {
        if (sealed) {
            var person = session.find(SealedPerson.class, id);
            say.accept("person: %s, %s, %s".formatted(hex(person.name), hex(person.salary), person.city));
        } else {
            var person = session.find(Person.class, id);
            say.accept("person: %s, %d, %s".formatted(person.name, person.salary, person.city));
        }
        var question = "select count(*) from Person where name = :name";
        var found = session.createSelectionQuery(question, Long.class).setParameter("name", "Ann-" + owner);
        say.accept("found: " + found.getSingleResult());
    }

    private static String hex(byte[] value) {
        return "hex:" + HexFormat.of().formatHex(value);
    }

    private void leave(Session session, Integer id) {
        session.createMutationQuery("delete from Person where city = :city").setParameter("city", owner).executeUpdate();
        session.remove(session.find(City.class, id));
        session.flush();
        List<City> left = session.createSelectionQuery("from City where name in (:names)", City.class)
                .setParameter("names", List.of(owner, "nobody"))
                .setMaxResults(9)
                .list();
        say.accept("left: " + left.size());
    }
}
