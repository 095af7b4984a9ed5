"""One ledger a format, as the software of that format wrote it; none is ever written again."""
