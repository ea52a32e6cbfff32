B
FLOAT8E8M0Jÿ€ÿ