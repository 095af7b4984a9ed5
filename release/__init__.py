"""Weekly statistics about people, published under a privacy budget that anyone can check."""

__version__ = "0.1.0"
