"""What backends that run torch modules share; a backend adds its probe, and what is special about its devices."""
