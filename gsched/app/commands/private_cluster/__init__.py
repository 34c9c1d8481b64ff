"""Words of gsched for a private cluster. Start with `up_words`. No module imports what the words of others need."""
