"""The least that compiled questions are written in: quoted names, and selects that are built in place."""

from sqlglot import exp

__all__ = ["alias", "column", "how_many", "select", "table"]


def select(*columns: exp.Expression) -> exp.Select:
    """Return a select of `columns`, uncopied: a list of ten thousand keys is not copied at each step."""
    return exp.select(*columns, copy=False)


def table(name: str, called: str) -> exp.Expression:
    """Return a table under a name, both quoted."""
    return exp.Table(this=_name(name), alias=exp.TableAlias(this=_name(called)))


def alias(value: exp.Expression, name: str) -> exp.Expression:
    """Return a value under a quoted name."""
    return exp.Alias(this=value, alias=_name(name))


def column(name: str, of: str | None = None) -> exp.Expression:
    """Return a column by its quoted name, of a table where more than one is in sight."""
    return exp.column(name, table=of, quoted=True)


def how_many() -> exp.Expression:
    """Return the count of rows."""
    return exp.Count(this=exp.Star())


def _name(name: str) -> exp.Expression:
    return exp.to_identifier(name, quoted=True)
