package costof;

import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Table;

@Entity
@Table(name = "people")
public class Person {
    @Id
    @GeneratedValue(strategy = GenerationType.IDENTITY)
    Integer id;

    String name;
    int salary;
    String city;

    protected Person() {}

    Person(String name, int salary, String city) {
        this.name = name;
        this.salary = salary;
        this.city = city;
    }
}
