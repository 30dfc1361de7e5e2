"""Which member of a broker group leads: promotions, what masters request, what nodes have acknowledged."""
