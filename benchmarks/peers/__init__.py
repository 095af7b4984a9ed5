"""The comparison of accuracy: its data sets, and one script for each product compared."""
