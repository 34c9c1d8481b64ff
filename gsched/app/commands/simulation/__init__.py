"""`gsched sim`: a cluster and its work in virtual time. Start with `simulation_words`. No cluster is asked."""
