"""Words of gadmin that make this installation services of hosts. Start with `unit_words`."""
