"""The system of record: SQL with the constraints that make "one answer" true."""
