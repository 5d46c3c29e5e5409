"""Postgres: the embedded server, migrations, and transactions that know who they are for."""
