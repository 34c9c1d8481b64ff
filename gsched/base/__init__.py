"""Clock, ids, errors, units: what every floor may use. Nothing here knows what a job is."""
