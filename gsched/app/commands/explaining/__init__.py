"""Words of gadmin that say why jobs wait, and until when. Start with `explain_words`. They change nothing."""
