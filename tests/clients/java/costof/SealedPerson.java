package costof;

import jakarta.persistence.Entity;
import jakarta.persistence.Id;
import jakarta.persistence.Table;
import org.hibernate.annotations.Immutable;

/** A row of people as it comes to an account that gets ciphertext. */
@Entity
@Immutable
@Table(name = "people")
public class SealedPerson {
    @Id
    Integer id;

    byte[] name;
    byte[] salary;
    String city;
}
