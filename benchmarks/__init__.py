"""What is measured, and against whom; no part of the package."""
