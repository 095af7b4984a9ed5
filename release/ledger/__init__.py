"""The append-only record of every charge against an account, and of what it paid for."""
