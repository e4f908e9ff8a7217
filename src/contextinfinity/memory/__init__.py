"""What is remembered of a user: drawn from their own words, told apart, ranked and shown. No I/O, no other step."""
