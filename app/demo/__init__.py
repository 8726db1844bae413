"""The market shown from end to end: a real service, real data, people who buy and one who checks."""
