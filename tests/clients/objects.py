"""Run the statements of `facts` as an application that uses the ORM of SQLAlchemy."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sql
from sqlalchemy import orm

from tests.clients.facts import NOTE, SALARY, name_of, shown


class Base(orm.DeclarativeBase):
    pass


class City(Base):
    __tablename__ = "cities"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sql.String(64))
    residents: orm.Mapped[int] = orm.mapped_column(server_default="0")
    visits: orm.Mapped[list[Visit]] = orm.relationship(cascade="all, delete-orphan", order_by="Visit.at")


class Visit(Base):
    __tablename__ = "visits"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    city_id: orm.Mapped[int] = orm.mapped_column(sql.ForeignKey("cities.id"))
    at: orm.Mapped[datetime]
    note: orm.Mapped[str | None] = orm.mapped_column(sql.Text)
    price: orm.Mapped[Decimal] = orm.mapped_column(sql.Numeric(12, 2))


class Person(Base):
    __tablename__ = "people"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sql.String(64))
    salary: orm.Mapped[int]
    city: orm.Mapped[str] = orm.mapped_column(sql.String(64))


def round_trip(engine: sql.Engine, owner: str) -> list[str]:
    """Return the lines that `facts.check` expects from a client. The client uses connections of the engine's pool."""
    lines: list[str] = []

    def report(subject: str, *values: Any) -> None:
        lines.append(f"{subject}: {', '.join(map(shown, values))}")

    reflected = sql.Table("cities", sql.MetaData(), autoload_with=engine)
    report("columns", *(column.name for column in reflected.columns))
    with orm.Session(engine) as session:
        city = _cities(session, owner, report)
        _people(session, owner, report)
        session.delete(city)
        session.commit()
        report("left", session.scalar(sql.select(sql.func.count()).select_from(City).where(City.name == owner)))
    return lines


def _cities(session: orm.Session, owner: str, report: Any) -> City:
    visits = [
        Visit(at=datetime(2026, 1, 2, 3, 4, 5), price=Decimal("1.50")),
        Visit(at=datetime(2026, 1, 3), note=NOTE, price=Decimal("2.25")),
    ]
    # `residents` is not given, so the server sets the default. SQLAlchemy then reads the default, by RETURNING if the
    # server supports it.
    city = City(name=owner, visits=visits)
    session.add(city)
    session.flush()
    assert city.residents == 0
    city.residents = 3
    session.commit()
    read = session.scalars(
        sql.select(City).options(orm.joinedload(City.visits)).where(City.name.in_([owner, "nobody"]))
    ).unique()
    for visit in read.one().visits:
        report("visit", visit.at, visit.note, visit.price)
    summary = (
        sql.select(City.name, sql.func.count(), sql.func.sum(Visit.price), sql.func.max(Visit.at))
        .join(Visit)
        .where(City.id == city.id)
        .group_by(City.name)
        .having(sql.func.count() > 1)
        .limit(1)
    )
    report("summary", *session.execute(summary).one())
    change = sql.update(City).where(City.id == city.id)
    changed: Any = session.execute(change.values(residents=City.residents + 1))
    report("updated", changed.rowcount)
    session.commit()
    with session.begin_nested():
        city.residents = 98
    city.residents = 99
    session.flush()
    session.rollback()
    report("residents", city.residents)
    return city


def _people(session: orm.Session, owner: str, report: Any) -> None:
    person = Person(name=name_of(owner), salary=SALARY - 1, city=owner)
    session.add(person)
    session.commit()
    session.execute(sql.update(Person).where(Person.id == person.id).values(salary=SALARY))
    session.commit()
    session.refresh(person)
    report("person", person.name, person.salary, person.city)
    found = sql.select(sql.func.count()).select_from(Person).where(Person.name == name_of(owner))
    report("found", session.scalar(found))
    session.execute(sql.delete(Person).where(Person.city == owner))
    session.commit()
