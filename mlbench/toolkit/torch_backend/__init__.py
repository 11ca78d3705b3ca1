"""The base of backends that run torch modules; a backend adds its probe, and what is specific to its devices."""
